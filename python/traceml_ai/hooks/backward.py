"""Backward: ``torch.autograd.backward``, which ``Tensor.backward`` calls too; the outermost call counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from traceml_ai import _core
from traceml_ai.hooks.patch import Patch

PHASE = _core.PHASE_BACKWARD

_patch: Patch | None = None


def timed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what `original` does and times it."""

    # Nothing is recorded outside a step, inside another backward (a reentrant checkpoint) and on other threads.
    timer = _core.Timer(PHASE, "around", original=original)

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if is_dynamo_compiling() else timer(*args, **kwargs)

    return _core.serve(backward)


def install() -> None:
    """Put the timed function in place."""
    global _patch
    if _patch is None:
        _patch = Patch(torch.autograd, "backward")
        _patch.put(timed(_patch.original))


def remove() -> None:
    """Put back what was there."""
    global _patch
    if _patch is not None:
        _patch.restore()
        _patch = None
