"""Optimizer: the hooks that ``torch.optim`` offers for every optimizer's ``step``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.compiler import is_dynamo_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from traceml_ai import _core

PHASE = _core.PHASE_OPTIMIZER

_handles: list[Any] = []


def _hook(timer: Callable[..., Any]) -> Callable[..., Any]:
    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_dynamo_compiling():
            timer(optimizer, args, kwargs)

    return _core.serve(hook)


before_step = _hook(_core.Timer(PHASE, "before"))
# Does not run when `step` raised: what is open then goes with the training step or the retry.
after_step = _hook(_core.Timer(PHASE, "after"))


def install() -> None:
    """Register both hooks."""
    if not _handles:
        _handles.append(register_optimizer_step_pre_hook(before_step))
        _handles.append(register_optimizer_step_post_hook(after_step))


def remove() -> None:
    """Remove both hooks."""
    while _handles:
        _handles.pop().remove()
