"""Scaler: ``torch.amp.GradScaler.step``, which leaves the optimizer's step out when gradients are not finite.

No hook of the optimizer tells that. Fused optimizers leave it out on the device, unseen: theirs count as steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from traceml_ai import _core
from traceml_ai.hooks.patch import Patch

_patch: Patch | None = None


def _watching(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling() or not isinstance(optimizer, torch.optim.Optimizer):
            return original(self, optimizer, *args, **kwargs)
        ran = False

        def note(*_: Any) -> None:
            nonlocal ran
            ran = True

        # A hook for this one call: reading what the scaler found would wait for the device once more.
        handle = optimizer.register_step_pre_hook(note)
        try:
            result = original(self, optimizer, *args, **kwargs)
        finally:
            handle.remove()
        if not ran:
            _core.skipped(_core.PHASE_OPTIMIZER)
        return result

    return step


def install() -> None:
    """Put the watching function in place."""
    global _patch
    if _patch is None:
        _patch = Patch(torch.amp.GradScaler, "step")
        _patch.put(_watching(_patch.original))


def remove() -> None:
    """Put back what was there."""
    global _patch
    if _patch is not None:
        _patch.restore()
        _patch = None
