"""Reentry: whether an outer call of a module or optimizer is still on the stack."""

from __future__ import annotations

import sys
from typing import Any

from traceml_ai import _core

# The function of PyTorch that runs once a call of the owner and holds it as its local `self`.
_CALL = {
    _core.PHASE_FORWARD: "_call_impl",  # torch.nn.Module
    _core.PHASE_OPTIMIZER: "wrapper",  # torch.optim.Optimizer.profile_hook_step
}


def is_running(owner: Any, phase: int) -> bool:
    """Return whether, beside the call that asks, an earlier one of the same owner has not returned.

    Asked only when an owner enters a phase that it has not left: either it calls itself (``super().step()``), or the
    earlier call raised and this is a retry.
    """
    name = _CALL.get(phase)
    calls = 0
    frame = sys._getframe(1)
    while frame is not None and calls < 2:
        if frame.f_code.co_name == name and frame.f_locals.get("self") is owner:
            calls += 1
        frame = frame.f_back
    return calls > 1
