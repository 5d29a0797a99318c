"""``wrap_dataloader_fetch``: what it takes, what it stands for, and what it times."""

from __future__ import annotations

import copy
import pickle
import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts
from torch.utils.data import DataLoader, TensorDataset

Traced = Callable[..., Run]


class Batches:
    """A loader of somebody's own."""

    batch_size = 2

    def __init__(self, count: int = 4) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.count):
            yield torch.randn(2, 4)


def loader(batches: int = 4) -> Any:
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), batch_size=2)


def step(model: Any, value: Any) -> None:
    with traceml.trace_step(model):
        model(value).sum().backward()


def first_fetches(run: Run) -> list[bool]:
    return ["first_fetch" in line.get("flags", ()) for line in run.steps]


def test_a_loader_is_timed_on_every_pass(traced: Traced, model: Any) -> None:
    def body() -> None:
        timed = traceml.wrap_dataloader_fetch(Batches())
        for _ in range(2):
            for value in timed:
                step(model, value)

    run = traced(body)
    assert counts(run, "dataloader_fetch", "pre") == [1] * 8
    assert first_fetches(run) == [True, False, False, False] * 2


def test_an_iterator_and_a_generator(traced: Traced, model: Any) -> None:
    def body() -> None:
        for value in traceml.wrap_dataloader_fetch(iter(Batches(3))):
            step(model, value)

    run = traced(body)
    assert counts(run, "dataloader_fetch", "pre") == [1] * 3
    assert first_fetches(run) == [True, False, False]


def test_a_callable_is_called_as_it_was(traced: Traced, model: Any) -> None:
    batches: queue.Queue[Any] = queue.Queue()
    for value in Batches(3):
        batches.put(value)

    def body() -> None:
        get = traceml.wrap_dataloader_fetch(batches.get)
        for _ in range(3):
            step(model, get(True, timeout=1))
        with pytest.raises(queue.Empty):
            get(block=False)
        assert get.__name__ == "get"
        assert get.__self__ is batches

    assert counts(traced(body), "dataloader_fetch", "pre") == [1] * 3


def test_a_loader_around_a_dataloader_counts_once(traced: Traced, model: Any) -> None:
    def augmented(data: Any) -> Iterator[Any]:
        for (value,) in data:
            yield value + 1

    def body() -> None:
        for value in traceml.wrap_dataloader_fetch(augmented(loader())):
            step(model, value)

    assert counts(traced(body), "dataloader_fetch", "pre") == [1] * 4


def test_a_dataloader_may_be_wrapped_where_no_hook_times_it(traced: Traced, model: Any) -> None:
    def body() -> None:
        for (value,) in traceml.wrap_dataloader_fetch(loader()):
            step(model, value)

    run = traced(body, mode="manual")
    assert counts(run, "dataloader_fetch", "pre") == [1] * 4
    assert "dataloader_fetch" in run.end["armed"]


def test_the_automatic_hook_and_a_wrapper_are_one_too_many(traced: Traced, model: Any) -> None:
    def body() -> None:
        for timed in (loader(), iter(loader())):
            with pytest.raises(RuntimeError, match="automatic hook"):
                traceml.wrap_dataloader_fetch(timed)
        step(model, torch.randn(2, 4))

    traced(body)


def test_it_passes_for_the_original() -> None:
    original = Batches()
    timed = traceml.wrap_dataloader_fetch(original)
    assert isinstance(timed, Batches)
    assert len(timed) == 4
    assert timed.batch_size == 2
    timed.count = 3
    assert original.count == 3
    del timed.count
    assert not hasattr(original, "count")
    original.count = 0
    assert not timed
    assert "Batches" in repr(timed)
    assert "batch_size" in dir(timed)
    assert isinstance(traceml.wrap_dataloader_fetch(loader()), DataLoader)
    with pytest.raises(AttributeError, match="nothing"):
        timed.nothing  # noqa: B018
    with pytest.raises(TypeError, match="len"):
        len(traceml.wrap_dataloader_fetch(iter([])))
    assert list(traceml.wrap_dataloader_fetch([1, 2])) == [1, 2]


def test_it_can_be_copied_pickled_and_wrapped_again() -> None:
    timed = traceml.wrap_dataloader_fetch([1, 2])
    assert traceml.wrap_dataloader_fetch(timed) is timed
    for again in (copy.copy(timed), copy.deepcopy(timed), pickle.loads(pickle.dumps(timed))):
        assert type(again) is type(timed)
        assert list(again) == [1, 2]


def test_an_exception_of_the_loader_passes_through(traced: Traced, model: Any) -> None:
    error = LookupError("mine")

    def broken() -> Iterator[Any]:
        yield torch.randn(2, 4)
        raise error

    def body() -> None:
        iterator = traceml.wrap_dataloader_fetch(broken())
        step(model, next(iterator))
        with pytest.raises(LookupError) as caught:
            next(iterator)
        assert caught.value is error
        with pytest.raises(StopIteration):
            next(iterator)
        step(model, torch.randn(2, 4))

    assert counts(traced(body), "dataloader_fetch", "pre") == [1, 1]  # what raised was waited for


async def coroutine() -> None: ...


def generator() -> Iterator[Any]:
    yield


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (3, "not int"),
        (None, "not NoneType"),
        ("train", "'train'"),
        (Batches, "Batches"),
        (torch.nn.Linear(1, 1), "Linear"),
        (torch.nn.Sequential(), "Sequential"),
        (coroutine, "pass what it returns"),
        (generator, "pass what it returns"),
    ],
)
def test_the_wrong_kind(wrong: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        traceml.wrap_dataloader_fetch(wrong)
