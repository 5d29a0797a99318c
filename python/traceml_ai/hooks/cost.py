"""What our Python hooks cost around a span, measured once at start: it is published as `instrumentation`, not hidden.

The core measures its own part span by span. This is the rest: the calls that PyTorch and the interpreter make for us.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from traceml_ai import _core
from traceml_ai.hooks import backward, forward, optimizer

ROUNDS = 5
CALLS = 100


def _call_ns(call: Callable[[], object]) -> float:
    """Nanoseconds of one call: the best of a few rounds, since an interruption only ever adds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / CALLS)
    return best


def _nothing(*_: object) -> None:
    pass


def _forward_ns() -> float:
    bare, hooked = torch.nn.Identity(), torch.nn.Identity()
    hooked.register_forward_pre_hook(forward.before)
    hooked.register_forward_hook(forward.after)
    return _call_ns(lambda: hooked(None)) - _call_ns(lambda: bare(None))


def _backward_ns() -> float:
    timed = backward.timed(_nothing)
    return _call_ns(lambda: timed(None)) - _call_ns(lambda: _nothing(None))


def _optimizer_ns() -> float:
    def both() -> None:
        optimizer.before_step(None, (), {})
        optimizer.after_step(None, (), {})

    return _call_ns(both) - _call_ns(lambda: None)


def measure() -> None:
    """Tell the core what one span of each phase costs in Python. Takes a few milliseconds, before the first step."""
    for phase, cost_ns in (
        (_core.PHASE_FORWARD, _forward_ns()),
        (_core.PHASE_BACKWARD, _backward_ns()),
        (_core.PHASE_OPTIMIZER, _optimizer_ns()),
    ):
        _core.set_hook_cost(phase, max(int(cost_ns), 0))
