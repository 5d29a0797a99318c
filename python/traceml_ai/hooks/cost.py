"""Cost: what our hooks themselves take around a span, published as `instrumentation` and not hidden in the phases.

The core measures its own part span by span. This is the rest: the calls that PyTorch and the interpreter make for us.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch

from traceml_ai import _core
from traceml_ai.hooks import backward, dataloader, forward, optimizer

CALLS = 50
REPEATS = 7


def _ns_per_call(call: Callable[[], Any]) -> float:
    """Return the shortest of some averages: what a call takes when nothing else gets in between."""
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter_ns() - began)
    return best / CALLS


def _step() -> None:
    with _core.TraceStep(None):
        pass


def _span() -> None:
    with _core.Span("evaluation"):
        pass


def _forward_ns() -> float:
    module = torch.nn.Identity()
    return _ns_per_call(functools.partial(forward.timed(module), None)) - _ns_per_call(lambda: module._call_impl(None))


def _backward_ns() -> float:
    def nothing() -> None:
        pass

    return _ns_per_call(backward.timed(nothing)) - _ns_per_call(nothing)


def _optimizer_ns() -> float:
    def both() -> None:
        optimizer.before_step(None, (), {})
        optimizer.after_step(None, (), {})

    return _ns_per_call(both)


def _fetch_ns() -> float:
    """What the extension asks before each fetch; a fetch itself cannot be tried without counting it."""

    class Batches:
        _num_yielded = _traceml_source = 1

    iterator = Batches()
    return _ns_per_call(lambda: (iterator._num_yielded, iterator._traceml_source)) + _ns_per_call(torch.is_grad_enabled)


def measure() -> dict[int, int]:
    """Return what our part around one span takes, in ns by phase.

    For a process without an open session, so that nothing is counted. The hooks return early then and run in a tight
    loop: a lower bound. In a real step with cold caches they take about two to three times as long (docs/overhead.md).
    """
    found = {
        _core.PHASE_STEP: _ns_per_call(_step),
        **dict.fromkeys((_core.PHASE_EVALUATION, _core.PHASE_CHECKPOINT, _core.PHASE_USER), _ns_per_call(_span)),
        forward.PHASE: _forward_ns(),
        backward.PHASE: _backward_ns(),
        optimizer.PHASE: _optimizer_ns(),
        dataloader.PHASE: _fetch_ns(),
    }
    return {phase: max(round(cost), 0) for phase, cost in found.items()}
