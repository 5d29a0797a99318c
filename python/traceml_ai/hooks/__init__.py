"""The hooks on PyTorch: one module a phase, each with ``install()`` and ``remove()``.

They import torch, so they are imported by ``init()`` and by nothing else. Whatever the compiler may trace is a small
Python function that returns at once while it traces.
"""
