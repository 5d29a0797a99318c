"""Reentry: whether an outer ``step()`` of an optimizer is still on the stack."""

from __future__ import annotations

import sys
from typing import Any

# The function of torch.optim.Optimizer that runs once a call of step() and holds the optimizer as its local `self`.
_CALL = "wrapper"


def is_running(optimizer: Any) -> bool:
    """Return whether, beside the call that asks, an earlier ``step()`` of the same optimizer has not returned.

    Asked only when an optimizer enters its step without having left it: either it calls itself (``super().step()``), or
    the earlier call raised, which PyTorch's hooks do not tell, and this is a retry.
    """
    calls = 0
    frame = sys._getframe(1)
    while frame is not None and calls < 2:
        if frame.f_code.co_name == _CALL and frame.f_locals.get("self") is optimizer:
            calls += 1
        frame = frame.f_back
    return calls > 1
