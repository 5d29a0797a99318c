"""The fetch hook: what is a fetch, what is not, and what an iterator keeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter
from traceml_ai import _core

Traced = Callable[..., Run]


def loader(batches: int = 5, **options: Any) -> Any:
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), batch_size=2, **options)


def loop(batches: Any, model: Any) -> None:
    for (value,) in batches:
        with traceml.trace_step(model):
            model(value).sum().backward()


def test_one_fetch_before_each_step_and_the_exhausting_call_is_none(traced: Traced, model: Any) -> None:
    def body() -> None:
        loop(loader(), model)
        with traceml.trace_step(model):  # its iteration holds the call that ended the epoch
            pass

    run = traced(body)
    assert counts(run, "dataloader_fetch", "pre") == [1] * 5 + [0]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_first_fetch_of_an_iterator_is_flagged(traced: Traced, model: Any, workers: int) -> None:
    def body() -> None:
        for _ in range(2):
            loop(loader(3, num_workers=workers), model)

    run = traced(body)
    assert ["first_fetch" in line.get("flags", ()) for line in run.steps] == [True, False, False] * 2
    assert counts(run, "dataloader_fetch", "pre") == [1] * 6


def test_persistent_workers_start_a_new_pass_on_the_same_iterator(traced: Traced, model: Any) -> None:
    data = loader(3, num_workers=1, persistent_workers=True)

    def body() -> None:
        for _ in range(2):
            loop(data, model)

    run = traced(body)
    assert ["first_fetch" in line.get("flags", ()) for line in run.steps] == [True, False, False] * 2


def test_an_iterator_keeps_what_it_was(traced: Traced, model: Any) -> None:
    data = loader()
    seen: dict[str, Any] = {}

    def body() -> None:
        iterator = iter(data)
        seen.update(type=type(iterator), length=len(iterator), bound=iterator.__next__)
        seen["signature"] = str(inspect.signature(_BaseDataLoaderIter.__next__))
        seen["name"] = _BaseDataLoaderIter.__next__.__name__
        seen["first"] = next(iterator)[0].shape
        seen["second"] = seen["bound"]()[0].shape
        with traceml.trace_step(model):
            pass

    signature = str(inspect.signature(_BaseDataLoaderIter.__next__))
    run = traced(body)
    assert seen["type"] is _SingleProcessDataLoaderIter
    assert seen["length"] == 5
    assert seen["first"] == seen["second"] == (2, 4)
    assert seen["signature"] == signature
    assert seen["name"] == "__next__"
    assert counts(run, "dataloader_fetch", "pre") == [2]


def test_an_iterable_dataset_without_length(traced: Traced, model: Any) -> None:
    class Endless(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            while True:
                yield torch.randn(4)

    def body() -> None:
        for index, value in enumerate(DataLoader(Endless(), batch_size=2)):
            if index == 4:
                break
            with traceml.trace_step(model):
                model(value).sum().backward()

    assert counts(traced(body), "dataloader_fetch", "pre") == [1] * 4


def test_an_exception_of_the_dataset_passes_through(traced: Traced, model: Any) -> None:
    class Broken(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            if index == 2:
                raise LookupError("item 2")
            return torch.randn(4)

    def body() -> None:
        iterator = iter(DataLoader(Broken(), batch_size=2))
        with traceml.trace_step(model):
            next(iterator)
        with pytest.raises(LookupError, match="item 2"):
            next(iterator)
        next(iterator)
        with traceml.trace_step(model):
            pass

    run = traced(body)
    assert len(run.completed) == 2
    assert counts(run, "dataloader_fetch", "pre") == [0, 2]  # what raised was waited for


def test_a_loader_inside_a_dataset_counts_once(traced: Traced, model: Any) -> None:
    class Outer(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            for (value,) in loader(4):
                yield value

    def body() -> None:
        for value in DataLoader(Outer(), batch_size=None):
            with traceml.trace_step(model):
                model(value).sum().backward()

    assert counts(traced(body), "dataloader_fetch", "pre") == [1] * 4


def test_a_fetch_inside_the_block_is_in_the_step(traced: Traced, model: Any) -> None:
    def body() -> None:
        iterator = iter(loader())
        for _ in range(2):
            with traceml.trace_step(model):
                for _ in range(2):
                    model(next(iterator)[0]).sum().backward()

    run = traced(body)
    assert counts(run, "dataloader_fetch") == [2, 2]
    assert counts(run, "dataloader_fetch", "pre") == [0, 0]


def test_loader_settings_are_those_of_the_loader_that_feeds(traced: Traced, model: Any) -> None:
    def body() -> None:
        with torch.no_grad():
            next(iter(loader(3, num_workers=0)))  # a sanity check before training
        loop(loader(3, num_workers=1, prefetch_factor=3, persistent_workers=True), model)

    found = traced(body).end["environment"]["loader"]
    assert found == {
        "workers": 1,
        "pin_memory": False,
        "persistent_workers": True,
        "prefetch_factor": 3,
        "batch_size": 2,
    }


def test_epochs_are_the_passes_over_the_feeding_data(traced: Traced, model: Any) -> None:
    data, other = loader(2), loader(2)

    def body() -> None:
        for _ in range(3):
            loop(data, model)
            with torch.no_grad():
                for _ in other:
                    pass

    run = traced(body)
    assert [line.get("epoch") for line in run.steps] == [0, 0, 1, 1, 2, 2]
    assert (run.summary["run"]["epochs_begun"], run.summary["run"]["epochs_completed"]) == (3, 3)


def test_an_epoch_that_is_left_early_is_not_completed(traced: Traced, model: Any) -> None:
    def body() -> None:
        data = loader(3)
        loop(data, model)
        for batch in data:
            loop([batch], model)
            break
        loop(data, model)

    section = traced(body).summary["run"]
    assert (section["epochs_begun"], section["epochs_completed"]) == (3, 2)


def test_without_a_span_of_it_an_evaluation_is_null_and_says_why(traced: Traced, model: Any) -> None:
    summary = traced(lambda: loop(loader(), model)).summary
    status = summary["step_time"]["global"]["status"]["evaluation_ms"]
    assert summary["step_time"]["global"]["average"]["evaluation_ms"] is None
    assert (status["availability"], status["reason"]) == ("unavailable", "no_span")
    assert summary["run"]["evaluation_s"] is None
    assert summary["run"]["reasons"]["evaluation_s"] == "no_span"

    def with_evaluation() -> None:
        loop(loader(), model)
        with traceml.span("evaluation"):
            model(torch.randn(2, 4))
        loop(loader(), model)

    assert traced(with_evaluation).summary["run"]["evaluation_s"] > 0


def test_the_callable_passes_on_without_a_session() -> None:
    calls: list[Any] = []
    fetch = _core.Fetch(lambda *args, **kwargs: calls.append((args, kwargs)) or 7)
    assert fetch(1, key=2) == 7
    assert fetch() == 7
    assert calls == [((1,), {"key": 2}), ((), {})]


def test_the_callable_needs_a_callable() -> None:
    with pytest.raises(TypeError, match="callable"):
        _core.Fetch(3)
