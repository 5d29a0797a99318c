"""After shutdown everything that was patched is what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import traceml_ai as traceml
from conftest import Run, counts
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter
from traceml_ai.hooks.patch import Patch

Traced = Callable[..., Run]


def everything() -> list[Any]:
    return [
        vars(_BaseDataLoaderIter)["__next__"],
        vars(_SingleProcessDataLoaderIter).get("__next__"),
        torch.autograd.backward,
        torch.Tensor.backward,
        torch.nn.Module.__call__,
        torch.nn.Module._call_impl,
        torch.nn.Module._replicate_for_data_parallel,
        torch.Tensor.to,
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        dict(torch.nn.modules.module._global_forward_hooks),
        dict(torch.nn.modules.module._global_forward_pre_hooks),
    ]


def train(model: Any, optimizer: Any) -> None:
    for (value,) in DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2):
        with traceml.trace_step(model):
            optimizer.zero_grad()
            model(value).sum().backward()
            optimizer.step()


def test_shutdown_restores_everything(traced: Traced, model: Any, optimizer: Any) -> None:
    before = everything()
    during: list[Any] = []

    def body() -> None:
        train(model, optimizer)
        during.extend(everything())

    traced(body)
    after = everything()
    assert all(a is b or a == b for a, b in zip(before, after, strict=True))
    assert after[0] is before[0]
    assert after[2] is before[2]
    assert during[0] is not before[0]
    assert during[2] is not before[2]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not any("_compiled_call_impl" in vars(m) for m in model.modules())


def test_what_compile_put_on_the_model_comes_back(traced: Traced, model: Any, optimizer: Any) -> None:
    model.compile(backend="eager")
    compiled = model._compiled_call_impl
    run = traced(lambda: train(model, optimizer))
    assert model._compiled_call_impl is compiled
    assert counts(run, "forward") == [1, 1, 1]


def test_what_compile_puts_over_ours_stays(traced: Traced, model: Any, optimizer: Any) -> None:
    theirs: list[Any] = []

    def body() -> None:
        train(model, optimizer)
        model.compile(backend="eager")
        theirs.append(model._compiled_call_impl)
        train(model, optimizer)

    run = traced(body)
    assert model._compiled_call_impl is theirs[0]
    assert len(run.completed) == 6


def test_a_second_session_hooks_the_same_model_again(traced: Traced, model: Any, optimizer: Any) -> None:
    for _ in range(3):
        run = traced(lambda: train(model, optimizer))
        for phase in ("forward", "backward", "optimizer"):
            assert counts(run, phase) == [1, 1, 1]
        assert counts(run, "dataloader_fetch", "pre") == [1, 1, 1]


def test_an_iterator_and_a_step_outlive_the_session(traced: Traced, model: Any, optimizer: Any) -> None:
    kept: list[Any] = []

    def body() -> None:
        train(model, optimizer)
        kept.append(iter(DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2)))
        kept.append(kept[0].__next__)  # bound to our callable
        kept.append(traceml.trace_step(model))
        kept[2].__enter__()

    traced(body)
    assert next(kept[0])[0].shape == (2, 4)
    assert kept[1]()[0].shape == (2, 4)
    kept[2].__exit__(None, None, None)
    with kept[2]:
        train(model, optimizer)


def test_what_somebody_put_over_ours_stays(traced: Traced, model: Any, optimizer: Any) -> None:
    original = torch.autograd.backward
    theirs: list[Any] = []

    def body() -> None:
        ours = torch.autograd.backward

        def theirs_backward(*args: Any, **kwargs: Any) -> Any:
            return ours(*args, **kwargs)

        theirs.append(theirs_backward)
        torch.autograd.backward = theirs_backward
        train(model, optimizer)

    try:
        run = traced(body)
        assert torch.autograd.backward is theirs[0]
        assert counts(run, "backward") == [1, 1, 1]
        train(model, optimizer)  # goes through ours, which passes on
    finally:
        torch.autograd.backward = original


def test_an_inherited_attribute_is_restored_by_deleting_ours() -> None:
    class Base:
        def method(self) -> str:
            return "base"

    class Derived(Base):
        pass

    patch = Patch(Derived, "method")
    assert patch.original is Base.method
    patch.put(lambda self: "ours")
    assert Derived().method() == "ours"
    patch.restore()
    assert "method" not in vars(Derived)
    assert Derived().method() == "base"
    patch.restore()
