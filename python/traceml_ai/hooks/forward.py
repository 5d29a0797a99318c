"""Forward: a bracket around the call of the traced module alone, put on once a model.

It stands in the instance's ``_compiled_call_impl``, the place that ``Module.__call__`` looks into first and that
``model.compile()`` uses. A pair of forward hooks would do the same, but sends the module through the long way of
``Module.__call__``: 7 us a step instead of 2 in a real loop. The place has other advantages: PyTorch itself leaves it
out of copies and pickles of the model, it is around what ``model.compile()`` made, ``torch.jit.script`` does not look
at it, and an exception in the forward is seen when it happens.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from traceml_ai import _core
from traceml_ai.hooks.patch import Patch

PHASE = _core.PHASE_FORWARD

_PLACE = "_compiled_call_impl"

# Of each model that carries ours: the model, weakly, our callable, and what stood in its place (None: nothing).
_placed: list[tuple[weakref.ref[Any], Callable[..., Any], Callable[..., Any] | None]] = []
_replicate: Patch | None = None


def timed(model: Any, compiled: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a callable that calls `model` as ``Module.__call__`` does and times it.

    It refers to the model weakly: a strong reference would be a cycle, and the memory of a model that was deleted would
    be free only when the garbage collector comes by.
    """
    alive = weakref.ref(model)
    timer = _core.Timer(PHASE, "around", alive, compiled)

    def timed_call(*args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():
            return (alive()._call_impl if compiled is None else compiled)(*args, **kwargs)
        return timer(*args, **kwargs)

    return _core.serve(timed_call)


def _replicating(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keep ours out of the replicas of ``DataParallel``: they copy the instance, and would all call the one model."""

    def _replicate_for_data_parallel(module: Any) -> Any:
        replica = original(module)
        for _, ours, before in _placed:
            if vars(replica).get(_PLACE) is ours:
                _put(replica, before)
        return replica

    return _replicate_for_data_parallel


def _put(model: Any, callable_: Callable[..., Any] | None) -> None:
    # Not by setattr(): a compiled module hands attributes on to the one inside.
    if callable_ is None:
        vars(model).pop(_PLACE, None)
    else:
        vars(model)[_PLACE] = callable_


def install() -> None:
    """Let models be bracketed from now on."""
    global _replicate
    if not hasattr(torch.nn.Module, _PLACE):
        raise RuntimeError(f"torch.nn.Module has no {_PLACE}")
    if _replicate is None:
        _replicate = Patch(torch.nn.Module, "_replicate_for_data_parallel")
        _replicate.put(_replicating(_replicate.original))


def attach(model: Any) -> None:
    """Put the bracket on a model. The extension calls this once a model."""
    if _replicate is None or not isinstance(model, torch.nn.Module):
        return
    _placed[:] = [entry for entry in _placed if entry[0]() is not None]
    before = vars(model).get(_PLACE)
    ours = timed(model, before)
    _put(model, ours)
    _placed.append((weakref.ref(model), ours, before))


def remove() -> None:
    """Take it off every model that still lives and carries it."""
    global _replicate
    while _placed:
        alive, ours, before = _placed.pop()
        model = alive()
        if model is not None and vars(model).get(_PLACE) is ours:
            _put(model, before)
    if _replicate is not None:
        _replicate.restore()
        _replicate = None
