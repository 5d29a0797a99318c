"""Where a fetch belongs: to the step that it feeds, and what feeds none is no step's input wait."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts
from torch.utils.data import DataLoader, Dataset, TensorDataset

Traced = Callable[..., Run]


def loader(batches: int = 6, **options: Any) -> Any:
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), batch_size=2, **options)


class Slow(Dataset):
    """Sleeps for each item."""

    def __init__(self, items: int, seconds: float) -> None:
        self.items, self.seconds = items, seconds

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return torch.randn(4)


def step(model: Any, value: Any) -> None:
    with traceml.trace_step(model):
        model(value).sum().backward()


def pre(run: Run) -> list[int]:
    return counts(run, "dataloader_fetch", "pre")


def test_a_validation_with_gradients_on_is_not_the_next_step_s_wait(traced: Traced, model: Any) -> None:
    validation = DataLoader(Slow(50, 0.002), batch_size=1)

    def body() -> None:
        for index, (value,) in enumerate(loader()):
            if index == 3:
                for _ in validation:
                    pass
            step(model, value)

    run = traced(body)
    assert pre(run) == [1] * 6
    fourth = run.steps[3]
    assert fourth["pre"]["dataloader_fetch"]["cpu_ms"] < 50
    assert fourth["cpu"]["pre_step_other_ms"] >= 100  # 50 x 2 ms
    assert "first_fetch" not in fourth.get("flags", ())  # its own loader goes on: it is no warm-up


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_a_validation_without_gradients_is_none_whichever_its_loader(
    traced: Traced, model: Any, without: Callable[[], Any]
) -> None:
    data = loader()

    def body() -> None:
        for index, (value,) in enumerate(data):
            if index == 3:
                with without():
                    for (other,) in data:
                        model(other)
            step(model, value)

    assert pre(traced(body)) == [1] * 6


def test_a_validation_in_a_span_is_all_evaluation(traced: Traced, model: Any) -> None:
    validation = DataLoader(Slow(20, 0.002), batch_size=1)

    def body() -> None:
        for index, (value,) in enumerate(loader()):
            if index == 3:
                with traceml.span("evaluation"):
                    for other in validation:
                        model(other)
            step(model, value)

    run = traced(body)
    assert pre(run) == [1] * 6
    assert run.steps[3]["pre"]["evaluation"]["cpu_ms"] >= 40
    assert run.steps[3]["cpu"]["pre_step_other_ms"] < 40
    assert "first_fetch" not in run.steps[3].get("flags", ())


@pytest.mark.parametrize("how", ["its own iterator", "the one that feeds"])
def test_what_is_fetched_before_the_first_step_is_start_up(traced: Traced, model: Any, how: str) -> None:
    data = DataLoader(Slow(12, 0.005), batch_size=2)

    def body() -> None:
        iterator = iter(data)
        for _ in range(4):
            next(iterator)
        for value in iterator if how == "the one that feeds" else data:
            step(model, value)

    run = traced(body)
    assert pre(run)[:2] == [1, 1]
    assert 10 <= run.steps[0]["pre"]["dataloader_fetch"]["cpu_ms"] < 4 * 10
    assert run.summary["step_time"]["global"]["warmup"]["first_fetch_cpu_ms"] < 4 * 10


def test_one_batch_ahead_counts_where_it_was_waited_for(traced: Traced, model: Any, optimizer: Any) -> None:
    def ahead(data: Any) -> Iterator[Any]:
        """As accelerate does, to know the last batch of an epoch."""
        iterator = iter(data)
        current = next(iterator)
        for following in iterator:
            yield current
            current = following
        yield current

    def body() -> None:
        data = loader(30)
        for _ in range(2):
            for (value,) in ahead(data):
                with traceml.trace_step(model):
                    model(value).sum().backward()
                    optimizer.step()

    run = traced(body)
    assert pre(run) == ([2] + [1] * 28 + [0]) * 2
    section = run.summary["step_time"]
    status = section["global"]["status"]["input_wait_ms"]
    assert (status["availability"], status["coverage"]) == ("available", "in_window")
    assert status["steps_observed"] == status["steps_expected"] == 58  # all but the first of each epoch
    assert section["diagnosis"]["kind"] != "INCOMPLETE_DATA"
    assert "not judged" not in run.summary["text"]


def test_loaders_zipped_together_all_feed(traced: Traced, model: Any) -> None:
    def body() -> None:
        for (value,), _ in zip(loader(5), loader(5), strict=True):
            step(model, value)

    assert pre(traced(body)) == [2] * 5


def from_a_queue(model: Any, wrap: Callable[[Any], Any]) -> float:
    """Train from a queue that a producer thread fills slowly; return the mean ms at the pop, without the first."""
    batches: queue.Queue[Any] = queue.Queue(maxsize=1)
    waited: list[float] = []

    def produce() -> None:
        for value in DataLoader(Slow(12, 0.05), batch_size=1):
            batches.put(value)

    thread = threading.Thread(target=produce)
    thread.start()
    get = wrap(batches.get)
    for _ in range(12):
        began = time.perf_counter()
        value = get()
        waited.append((time.perf_counter() - began) * 1000)
        step(model, value)
    thread.join()
    return sum(waited[1:]) / len(waited[1:])


def test_a_producer_s_fetches_are_nobody_s(traced: Traced, model: Any) -> None:
    waited: list[float] = []
    run = traced(lambda: waited.append(from_a_queue(model, lambda get: get)))
    section = run.summary["step_time"]["global"]
    status = section["status"]["input_wait_ms"]
    assert section["average"]["input_wait_ms"] is None
    assert "late" not in run.end["losses"]  # a fetch across the end of a step is known all the same
    assert (status["coverage"], status["reason"]) == ("outside_window", "other_thread")
    assert section["average"]["pre_step_other_ms"] >= 0.9 * waited[0]  # where the wait for the queue is
    assert run.summary["primary_diagnosis"]["kind"] != "INPUT_BOUND"


def test_a_wrapped_queue_gives_the_wait_at_the_pop(traced: Traced, model: Any) -> None:
    waited: list[float] = []
    run = traced(lambda: waited.append(from_a_queue(model, traceml.wrap_dataloader_fetch)))
    section = run.summary["step_time"]["global"]
    assert section["average"]["input_wait_ms"] == pytest.approx(waited[0], rel=0.1)
    assert section["status"]["input_wait_ms"]["occurrences"] == {"pre_step": 11, "in_step": 0}
    assert section["average"]["in_step_input_wait_ms"] == 0
    assert section["average"]["pre_step_other_ms"] < 0.5 * waited[0]


def test_a_forward_without_gradients_in_a_step_is_forward_unless_it_is_bracketed(traced: Traced, model: Any) -> None:
    """A teacher, or a metric: the traced model's work in the step, whatever it is for."""

    def body() -> None:
        for bracketed in (False, True):
            with traceml.trace_step(model):
                with torch.no_grad(), traceml.span("evaluation" if bracketed else "teacher"):
                    model(torch.randn(2, 4))
                model(torch.randn(2, 4)).sum().backward()

    run = traced(body)
    assert counts(run, "forward") == [2, 2]
    plain, bracketed = (line["in"] for line in run.steps)
    assert plain["user"]["names"]["teacher"]["cpu_inclusive_ms"] > plain["user"]["names"]["teacher"]["cpu_ms"]
    assert "evaluation" not in plain
    assert bracketed["evaluation"]["cpu_ms"] > 0


def test_an_optimizer_on_every_fourth_step_counts_zero_on_the_others(
    traced: Traced, model: Any, optimizer: Any
) -> None:
    def body() -> None:
        for index, (value,) in enumerate(loader(41)):
            with traceml.trace_step(model):
                model(value).sum().backward()
                if index % 4 == 0:
                    optimizer.step()

    run = traced(body)
    section = run.summary["step_time"]["global"]
    status = section["status"]["optimizer_ms"]
    assert status["occurrences"] == {"pre_step": 0, "in_step": 10}
    assert (status["availability"], status["coverage"], status["reason"]) == ("available", "in_window", None)
    assert (status["steps_observed"], status["steps_expected"]) == (40, 40)
    total = sum(line["in"].get("optimizer", {}).get("cpu_ms", 0.0) for line in run.steps[1:])
    assert section["average"]["optimizer_ms"] == pytest.approx(total / 40, abs=1e-5)


def test_iterators_older_than_the_hook_are_one_unknown_loader(traced: Traced, model: Any) -> None:
    iterator = iter(loader())

    def body() -> None:
        for (value,) in itertools.islice(iterator, 4):
            step(model, value)

    assert pre(traced(body)) == [1] * 4
