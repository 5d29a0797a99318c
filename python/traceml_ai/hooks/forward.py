"""Forward: a pair of hooks on the traced module alone, put on once a model."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from traceml_ai import _core
from traceml_ai._core import enter, leave

PHASE = _core.PHASE_FORWARD

_FORWARD = PHASE  # a plain global: one look-up in the hot path
_installed = False
_handles: list[Any] = []


class _Hook:
    """A hook that a copy or a pickle of the model does not carry along.

    ``torch.save(model)`` pickles the hooks with the module. Ours turn into the ``__exit__`` of a ``nullcontext``, which
    takes any arguments and does nothing, so that the file loads where this package is not installed.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class _Before(_Hook):
    __slots__ = ()

    def __call__(self, module: Any, args: Any) -> None:
        if not is_dynamo_compiling():
            enter(_FORWARD, module)


class _After(_Hook):
    __slots__ = ()

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        if not is_dynamo_compiling():
            leave(_FORWARD, module)


before = _Before()
after = _After()


def install() -> None:
    """Let models be hooked from now on."""
    global _installed
    _installed = True


def attach(model: Any) -> None:
    """Put the hooks on a model. The extension calls this once a model.

    Ours comes first before and last after: what other hooks do (FSDP gathers parameters in one) is forward time.
    """
    if _installed and isinstance(model, torch.nn.Module):
        _handles[:] = [handle for handle in _handles if handle.hooks_dict_ref() is not None]  # models that are gone
        _handles.append(model.register_forward_pre_hook(before, prepend=True))
        _handles.append(model.register_forward_hook(after))


def remove() -> None:
    """Take the hooks off every model that still lives."""
    global _installed
    _installed = False
    while _handles:
        _handles.pop().remove()
