"""``span(name)``: the user's own phases, by name, inside a step and between two."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, clean_environment, count

Traced = Callable[..., Run]


def step(model: Any) -> None:
    with traceml.trace_step(model):
        model(torch.randn(2, 4)).sum().backward()


def names(line: dict[str, Any], region: str) -> dict[str, int]:
    """Return how often each name occurred in a region of a step line."""
    found = line.get(region, {}).get("user", {}).get("names", {})
    return {name: cell["count"] for name, cell in found.items()}


def test_a_name_goes_through_to_line_json_and_text(traced: Traced, model: Any) -> None:
    def body() -> None:
        for _ in range(5):
            with traceml.span("augment"):
                sum(range(10000))
            with traceml.trace_step(model):
                model(torch.randn(2, 4)).sum().backward()
                with traceml.span("log"):
                    sum(range(10000))

    run = traced(body)
    assert [names(line, "pre") for line in run.steps] == [{"augment": 1}] * 5
    assert [names(line, "in") for line in run.steps] == [{"log": 1}] * 5
    section = run.summary["step_time"]
    own = section["global"]["user_spans"]
    assert own == section["groups"]["rows"]["0"]["user_spans"]
    assert sorted(own) == ["augment", "log"]
    assert own["augment"]["occurrences"] == {"pre_step": 4, "in_step": 0, "other_thread": 0}
    assert own["augment"]["exclusive_ms"] == own["augment"]["pre_step_ms"] > 0
    assert own["log"]["in_step_ms"] > 0
    assert own["log"]["pre_step_ms"] == 0
    total = section["global"]["average"]["user_spans_ms"]
    assert own["augment"]["exclusive_ms"] + own["log"]["exclusive_ms"] == pytest.approx(total, abs=2e-6)
    assert re.search(r"own spans.*augment <?\d.* ms; log <?\d.* ms", run.summary["text"])


def test_of_nested_spans_the_innermost_owns_the_time_and_of_one_name_the_outermost_counts(
    traced: Traced, model: Any
) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model), traceml.span("outer"):
                with traceml.span("inner"), traceml.span("outer"):
                    sum(range(10000))
                model(torch.randn(2, 4)).sum().backward()

    for line in traced(body).steps:
        assert names(line, "in") == {"outer": 1, "inner": 1}
        outer = line["in"]["user"]["names"]["outer"]
        assert outer["cpu_inclusive_ms"] > outer["cpu_ms"]
        parts = sum(line["in"][phase]["cpu_ms"] for phase in ("forward", "backward", "user"))
        assert parts + line["cpu"]["residual_ms"] + line["cpu"]["instrumentation_ms"] == pytest.approx(
            line["cpu"]["traced_step_ms"], abs=1e-5
        )


@pytest.mark.parametrize("phase", ["evaluation", "checkpoint"])
def test_two_names_are_phases_and_keep_what_happens_inside(traced: Traced, model: Any, phase: str) -> None:
    def body() -> None:
        step(model)
        with traceml.span(phase), traceml.span("own"):
            sum(range(10000))
        step(model)
        with traceml.trace_step(model), traceml.span(phase):
            model(torch.randn(2, 4)).sum().backward()

    run = traced(body)
    assert [count(line, phase, "pre") for line in run.steps] == [0, 1, 0]
    assert run.steps[1]["pre"][phase]["cpu_ms"] > 0
    assert run.steps[1]["pre"]["user"]["cpu_ms"] == 0
    assert count(run.steps[2], phase) == 1
    assert run.steps[2]["in"]["forward"]["cpu_ms"] == 0  # all of it stays in the phase around it


def test_a_decorated_function_keeps_what_it_is(traced: Traced, model: Any) -> None:
    class Trainer:
        @traceml.span("augment")
        def augment(self, value: int, *, more: int = 1) -> int:
            """Add."""
            return self.augment(value - 1, more=more) + more if value else 0

    def body() -> None:
        for _ in range(2):
            assert Trainer().augment(5, more=2) == 10  # recursion: the outermost counts
            step(model)

    assert [names(line, "pre") for line in traced(body).steps] == [{"augment": 1}] * 2
    assert Trainer.augment.__name__ == "augment"
    assert Trainer.augment.__doc__ == "Add."


def test_a_decorated_function_on_two_threads_at_once(traced: Traced, model: Any) -> None:
    barrier = threading.Barrier(2)

    @traceml.span("both")
    def both() -> None:
        barrier.wait(10)

    def body() -> None:
        step(model)
        thread = threading.Thread(target=both)
        thread.start()
        both()
        thread.join()
        step(model)

    line = traced(body).steps[1]
    assert line["pre"]["user"]["names"]["both"]["count"] == 2
    assert line["pre"]["user"]["names"]["both"]["other"] == 1


async def coroutine() -> None: ...


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: traceml.span(3), TypeError, "str, not int"),
        (lambda: traceml.span(), TypeError, "one argument"),
        (lambda: traceml.span("a", "b"), TypeError, "one argument"),
        (lambda: traceml.span(phase="a"), TypeError, "'phase'"),
        (lambda: traceml.span(""), ValueError, "not empty"),
        (lambda: traceml.span("a")(3), TypeError, "decorates a function, not int"),
        (lambda: traceml.span("a")(coroutine), TypeError, "coroutine or generator"),
        (lambda: traceml.span("a")(generator), TypeError, "coroutine or generator"),
    ],
)
def test_what_is_not_accepted(make: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_an_exception_passes_through_untouched(traced: Traced, model: Any) -> None:
    error = LookupError("mine")

    def body() -> None:
        with pytest.raises(LookupError) as caught, traceml.span("fails"):
            raise error
        assert caught.value is error
        assert caught.value.__context__ is None
        step(model)

    assert names(traced(body).steps[0], "pre") == {"fails": 1}


def test_without_a_session_and_after_one_it_does_nothing(traced: Traced, model: Any) -> None:
    with traceml.span("nothing") as opened:
        assert repr(opened) == "span('nothing')"
    left_open = traceml.span("across")
    traced(lambda: (left_open.__enter__(), step(model)))
    left_open.__exit__(None, None, None)  # of a session that is gone
    left_open.__exit__(None, None, None)  # never entered
    run = traced(lambda: (left_open.__enter__(), left_open.__exit__(None, None, None), step(model)))
    assert names(run.steps[0], "pre") == {"across": 1}


def test_left_on_another_thread_it_harms_nobody(traced: Traced, model: Any) -> None:
    def body() -> None:
        moved = traceml.span("moved")
        moved.__enter__()
        thread = threading.Thread(target=moved.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        step(model)

    run = traced(body)
    assert len(run.completed) == 1
    assert names(run.steps[0], "pre") == {}


def test_one_around_several_steps_is_said_to_be_lost(traced: Traced, model: Any) -> None:
    def body() -> None:
        with traceml.span("epoch"):
            for _ in range(5):
                step(model)
            traceml.summary(timeout_sec=5, print_text=False)

    run = traced(body)
    assert len(run.completed) == 5
    assert run.end["losses"] == {"late": 1}


def test_names_beyond_fifteen_count_under_other() -> None:
    """In a process of its own: names live as long as it does."""
    code = """
import json, glob, tempfile, torch, traceml_ai as traceml
logs = tempfile.mkdtemp()
traceml.init(logs_dir=logs)
model = torch.nn.Linear(2, 2)
for _ in range(3):
    for number in range(18):
        with traceml.span(f"phase{number}"):
            pass
    with traceml.trace_step(model):
        model(torch.ones(1, 2)).sum().backward()
traceml.shutdown()
summary = json.load(open(glob.glob(logs + "/*/final_summary.json")[0]))
print("FOUND", json.dumps(summary["step_time"]["global"]["user_spans"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment(), timeout=120, check=True
    )
    own = json.loads(done.stdout.split("FOUND", 1)[1])
    assert len(own) == 16
    assert own["other"]["occurrences"]["pre_step"] == 6  # three names, two steps of the window
    assert own["phase14"]["occurrences"]["pre_step"] == 2


def test_in_a_compiled_function_it_breaks_the_graph_and_is_timed(traced: Traced, model: Any) -> None:
    @torch.compile(backend="eager")
    def compiled(value: Any) -> Any:
        value = value + 1
        with traceml.span("inside"):
            value = value * 2
        return value - 1

    def body() -> None:
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
            step(model)

    assert [names(line, "pre") for line in traced(body).steps] == [{"inside": 1}] * 3
