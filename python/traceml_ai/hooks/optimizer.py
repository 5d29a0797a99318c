"""Optimizer: the hooks that ``torch.optim`` offers for every optimizer's ``step``."""

from __future__ import annotations

from typing import Any

from torch.compiler import is_dynamo_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from traceml_ai import _core
from traceml_ai._core import enter, leave

PHASE = _core.PHASE_OPTIMIZER

_OPTIMIZER = PHASE  # a plain global: one look-up in the hot path
_handles: list[Any] = []


def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Open the span."""
    if not is_dynamo_compiling():
        enter(_OPTIMIZER, optimizer)


def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Close it. Does not run when ``step`` raised: what is open then goes with the training step or the retry."""
    if not is_dynamo_compiling():
        leave(_OPTIMIZER, optimizer)


def install() -> None:
    """Register both hooks."""
    if not _handles:
        _handles.append(register_optimizer_step_pre_hook(before_step))
        _handles.append(register_optimizer_step_post_hook(after_step))


def remove() -> None:
    """Remove both hooks."""
    while _handles:
        _handles.pop().remove()
