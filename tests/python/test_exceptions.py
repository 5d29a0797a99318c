"""The user's exceptions pass through untouched, and what they leave behind is told apart."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts
from traceml_ai import _core

Traced = Callable[..., Run]


class Failure(Exception):
    pass


class Fragile(torch.nn.Module):
    """Raises when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)
        self.fails = False

    def forward(self, value: Any) -> Any:
        if self.fails:
            raise Failure("forward")
        return self.inner(value)


def step(model: Any) -> None:
    model(torch.randn(2, 4)).sum().backward()


@pytest.mark.parametrize("kind", [Failure, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_exception_is_the_user_s_and_the_step_is_aborted(traced: Traced, kind: type[BaseException]) -> None:
    model = Fragile()
    mine = kind("mine")
    caught: list[Any] = []

    def body() -> None:
        for index in range(6):
            try:
                with traceml.trace_step(model):
                    step(model)
                    if index == 2:
                        raise mine
            except BaseException as error:
                caught.append((error, error.__cause__, error.__context__))

    run = traced(body)
    assert caught == [(mine, None, None)]
    aborted = [line for line in run.steps if "aborted" in line.get("flags", ())]
    assert [line["step"] for line in run.completed] == [1, 2, 3, 4, 5]
    assert [line["step"] for line in aborted] == [3]
    assert counts(run, "forward") == [1] * 6


def test_a_forward_that_raised_and_is_retried_in_the_same_step(traced: Traced) -> None:
    model = Fragile()

    def body() -> None:
        for index in range(4):
            with traceml.trace_step(model):
                model.fails = index == 1
                try:
                    step(model)
                except Failure:
                    model.fails = False
                    step(model)

    run = traced(body)
    assert len(run.completed) == 4
    assert counts(run, "backward") == [1] * 4
    assert counts(run, "forward") == [1, 2, 1, 1]
    retried = run.steps[1]["in"]
    assert retried["backward"]["cpu_ms"] > 0.0
    # The failed forward ended when it failed: the retry and backward are not inside it.
    assert "cpu_inclusive_ms" not in retried["forward"]


def test_a_whole_step_that_is_retried(traced: Traced) -> None:
    model = Fragile()

    def body() -> None:
        for index in range(4):
            for attempt in range(2):
                model.fails = index == 2 and attempt == 0
                try:
                    with traceml.trace_step(model):
                        step(model)
                    break
                except Failure:
                    continue

    run = traced(body)
    assert [line["step"] for line in run.steps] == [1, 2, 3, 3, 4]
    assert [line["step"] for line in run.completed] == [1, 2, 3, 4]


def test_a_backward_that_raises(traced: Traced) -> None:
    model = Fragile()

    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise Failure("backward")

    def body() -> None:
        with traceml.trace_step(model):
            with pytest.raises(Failure, match="backward"):
                Bad.apply(model(torch.randn(2, 4))).sum().backward()
            step(model)
        with traceml.trace_step(model):
            step(model)

    run = traced(body)
    assert len(run.completed) == 2
    assert counts(run, "backward")[1] == 1


def test_an_optimizer_that_always_raises_leaves_nothing_behind(traced: Traced) -> None:
    model = Fragile()

    class Broken(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise Failure("optimizer")

    optimizer = Broken(model.parameters(), lr=0.1)

    def body() -> None:
        for index in range(2000):
            try:
                with traceml.trace_step(model):
                    for _ in range(20 if index == 0 else 1):  # more than the places for open spans
                        with pytest.raises(Failure):
                            optimizer.step()
                    optimizer.step()
            except Failure:
                pass
        with traceml.trace_step(model):
            step(model)

    run = traced(body)
    assert len(run.steps) == 2001
    assert len(run.completed) == 1
    assert counts(run, "forward")[-1] == 1


def test_an_exception_in_the_block_keeps_nothing_alive(traced: Traced) -> None:
    model = Fragile()
    held: list[Any] = []

    class Thing:
        pass

    def body() -> None:
        def failing() -> None:
            thing = Thing()
            held.append(weakref.ref(thing))
            with traceml.trace_step(model):
                raise SystemExit(3)

        with pytest.raises(SystemExit):
            failing()
        gc.collect()
        assert held[0]() is None
        assert _core.departure() == "exit:3"
        with traceml.trace_step(model):
            assert _core.departure() is None

    traced(body)


@pytest.mark.parametrize(
    ("left_with", "reason"),
    [
        (SystemExit(), "exit:0"),
        (SystemExit(0), "exit:0"),
        (SystemExit(7), "exit:7"),
        (SystemExit("text"), "exit:1"),
        (KeyboardInterrupt(), "signal:SIGINT"),
        (Failure(), None),
    ],
)
def test_what_left_the_step_is_told(traced: Traced, left_with: BaseException, reason: str | None) -> None:
    def body() -> None:
        try:
            with traceml.trace_step(None):
                raise left_with
        except BaseException:
            assert _core.departure() == reason

    traced(body)


def test_an_error_of_ours_never_reaches_the_loop(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    from traceml_ai import environment
    from traceml_ai.hooks import device, forward

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a bug of ours")

    for owner, name in ((environment, "strategy_of"), (environment, "loader_settings"), (device, "find_parameter")):
        monkeypatch.setattr(owner, name, broken)
    monkeypatch.setattr(forward, "attach", broken)
    model = Fragile()

    def body() -> None:
        data = torch.utils.data.TensorDataset(torch.randn(6, 4))
        for (value,) in torch.utils.data.DataLoader(data, batch_size=2):
            with traceml.trace_step(model):
                model(value).sum().backward()

    run = traced(body)
    assert len(run.completed) == 3
    assert counts(run, "backward") == [1, 1, 1]


def test_an_interrupt_while_we_are_in_python_reaches_the_user(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    from traceml_ai.hooks import forward

    def interrupted(model: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(forward, "attach", interrupted)
    model = Fragile()

    def body() -> None:
        with pytest.raises(KeyboardInterrupt), traceml.trace_step(model):
            pytest.fail("the block must not run")
        with traceml.trace_step(model):  # the session is whole
            pass

    assert len(traced(body).completed) == 1


def test_references_are_balanced(traced: Traced) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def body() -> None:
        def rounds(number: int) -> tuple[int, ...]:
            for _ in range(number):
                with traceml.trace_step(model):
                    step(model)
                    optimizer.step()
                try:
                    with traceml.trace_step(model):
                        raise Failure
                except Failure:
                    pass
            return tuple(sys.getrefcount(thing) for thing in (model, optimizer, Failure, _core.TraceStep, None))

        first = rounds(10)
        second = rounds(500)
        # None is shared with everybody; 500 lost references would show.
        assert all(abs(a - b) < 100 for a, b in zip(first, second, strict=True)), (first, second)

    traced(body)
