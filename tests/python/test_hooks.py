"""Each hook counts what happened: once, in the right region, and nothing else."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts
from torch.utils.checkpoint import checkpoint

Traced = Callable[..., Run]


def step(model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()


def test_a_plain_step_has_one_of_each(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        for _ in range(5):
            with traceml.trace_step(model):
                step(model, optimizer)

    run = traced(body)
    for phase in ("forward", "backward", "optimizer"):
        assert counts(run, phase) == [1] * 5, phase
    assert [line["step"] for line in run.steps] == [1, 2, 3, 4, 5]
    assert run.end["reason"] == "finished"


def test_microbatches_are_counted(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                for _ in range(4):
                    model(torch.randn(2, 4)).sum().backward()
                optimizer.step()

    run = traced(body)
    assert counts(run, "forward") == [4, 4, 4]
    assert counts(run, "backward") == [4, 4, 4]
    assert counts(run, "optimizer") == [1, 1, 1]
    assert [line["microbatches"] for line in run.steps] == [4, 4, 4]


def test_what_happens_outside_a_step_is_nobody_s(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                step(model, optimizer)
            step(model, optimizer)

    run = traced(body)
    for phase in ("forward", "backward", "optimizer"):
        assert counts(run, phase) == [1, 1, 1]
        assert counts(run, phase, "pre") == [0, 0, 0]


def surface(model: Any) -> list[dict[str, Any]]:
    """Return what a user may look at or replace: the classes, and each module of the model with its hooks."""
    shown = [dict(vars(kind)) for kind in (torch.Tensor, torch._C.TensorBase, torch.nn.Module, type(model))]
    for module in model.modules():
        own = vars(module)
        shown.append({name: dict(value) if isinstance(value, dict) else value for name, value in own.items()})
    return shown


def test_of_all_that_a_user_sees_one_attribute_of_the_traced_module_is_ours(
    traced: Traced, model: Any, optimizer: Any
) -> None:
    during: list[list[dict[str, Any]]] = []

    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                step(model, optimizer)
                during.append(surface(model))
        during.append(surface(model))

    before = surface(model)
    traced(body)
    after = surface(model)
    assert len(before) == 8
    for shown in during:
        assert shown[4].pop("_compiled_call_impl") is not None
        # DataParallel alone calls it: it keeps that attribute out of the replicas.
        shown[2]["_replicate_for_data_parallel"] = before[2]["_replicate_for_data_parallel"]
    for shown in (*during, after):
        for was, now in zip(before, shown, strict=True):
            assert was.keys() == now.keys()
            assert [name for name in was if was[name] is not now[name] and was[name] != now[name]] == []


def test_two_models_in_turn(traced: Traced) -> None:
    models = [torch.nn.Linear(4, 1) for _ in range(2)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]

    def body() -> None:
        for index in range(6):
            with traceml.trace_step(models[index % 2]):
                step(models[index % 2], optimizers[index % 2])

    run = traced(body)
    assert counts(run, "forward") == [1] * 6
    assert all(m._compiled_call_impl is None for m in models)


def test_more_models_than_there_are_places_still_trace_the_step(traced: Traced) -> None:
    models = [torch.nn.Linear(4, 1) for _ in range(20)]

    def body() -> None:
        for model in models * 2:
            with traceml.trace_step(model):
                model(torch.randn(2, 4)).sum().backward()

    run = traced(body)
    assert len(run.completed) == 40
    assert sum(counts(run, "forward")) == 32
    assert counts(run, "backward") == [1] * 40


def test_places_of_models_that_are_gone_are_used_again(traced: Traced) -> None:
    def body() -> None:
        for _ in range(50):
            model = torch.nn.Linear(4, 1)
            with traceml.trace_step(model):
                model(torch.randn(2, 4)).sum().backward()

    assert counts(traced(body), "forward") == [1] * 50


def test_a_copy_of_the_model_is_not_the_model(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                average = copy.deepcopy(model)
                average(torch.randn(2, 4))
                step(model, optimizer)

    assert counts(traced(body), "forward") == [1, 1, 1]


def test_replicas_of_data_parallel_are_modules_of_their_own(traced: Traced, model: Any, optimizer: Any) -> None:
    original = torch.nn.Module._replicate_for_data_parallel
    found: list[Any] = []

    def body() -> None:
        with traceml.trace_step(model):
            step(model, optimizer)
        replica = model._replicate_for_data_parallel()
        found.append((replica._compiled_call_impl, model._compiled_call_impl is not None))

    traced(body)
    assert found == [(None, True)]
    assert torch.nn.Module._replicate_for_data_parallel is original


def test_a_deleted_model_is_free_at_once(traced: Traced) -> None:
    def body() -> None:
        model = torch.nn.Linear(4, 1)
        with traceml.trace_step(model):
            model(torch.randn(2, 4)).sum().backward()
        gone = weakref.ref(model)
        del model
        assert gone() is None

    gc.disable()
    try:
        traced(body)
    finally:
        gc.enable()


def test_a_model_with_hooks_of_its_own(traced: Traced, model: Any, optimizer: Any) -> None:
    calls: list[str] = []

    def body() -> None:
        handles = [
            model.register_forward_pre_hook(lambda module, args: calls.append("before")),
            model.register_forward_hook(lambda module, args, output: calls.append("after")),
        ]
        with traceml.trace_step(model):
            step(model, optimizer)
        for handle in handles:
            handle.remove()

    assert counts(traced(body), "forward") == [1]
    assert calls == ["before", "after"]


def test_keyword_arguments_and_results_pass_through(traced: Traced) -> None:
    class Keywords(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args, kwargs

    model = Keywords()

    def body() -> None:
        with traceml.trace_step(model):
            assert model(1, 2, key=3) == ((1, 2), {"key": 3})

    assert counts(traced(body), "forward") == [1]


def test_a_pickled_model_does_not_need_us(traced: Traced, model: Any, optimizer: Any) -> None:
    pickles: list[bytes] = []

    def body() -> None:
        with traceml.trace_step(model):
            step(model, optimizer)
        pickles.append(pickle.dumps(model))

    traced(body)
    assert b"traceml" not in pickles[0]
    loaded = pickle.loads(pickles[0])
    value = torch.randn(2, 4)
    assert torch.equal(loaded(value), model(value))


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_is_backward(traced: Traced, model: Any, optimizer: Any, reentrant: bool) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                value = torch.randn(2, 4, requires_grad=True)
                checkpoint(model, value, use_reentrant=reentrant).sum().backward()
                optimizer.step()

    run = traced(body)
    assert counts(run, "forward") == [1, 1, 1]
    assert counts(run, "backward") == [1, 1, 1]


def test_forward_on_another_thread_is_not_the_step_s(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                thread = threading.Thread(target=model, args=(torch.randn(2, 4),))
                thread.start()
                thread.join()
                step(model, optimizer)

    assert counts(traced(body), "forward") == [1, 1, 1]


def test_a_module_that_calls_itself_counts_once(traced: Traced) -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, value: Any, again: bool = True) -> Any:
            return self(value, False) if again else self.inner(value)

    model = Twice()

    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                model(torch.randn(2, 4)).sum().backward()

    run = traced(body)
    assert counts(run, "forward") == [1, 1, 1]
    assert len(run.completed) == 3


def test_an_optimizer_that_calls_super_counts_once(traced: Traced, model: Any) -> None:
    class Sub(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    optimizer = Sub(model.parameters(), lr=0.1)
    torch.optim.SGD(model.parameters(), lr=0.1)  # decorates SGD.step too

    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model):
                step(model, optimizer)

    run = traced(body)
    assert counts(run, "optimizer") == [1, 1, 1]
    assert len(run.completed) == 3


def test_a_closure_runs_inside_the_optimizer(traced: Traced, model: Any) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).sum()
        loss.backward()
        return loss

    def body() -> None:
        for _ in range(2):
            with traceml.trace_step(model):
                optimizer.step(closure)

    run = traced(body)
    assert counts(run, "optimizer") == [1, 1]
    assert all(n >= 1 for n in counts(run, "forward"))
    assert counts(run, "forward") == counts(run, "backward")


def test_selective_installs_what_was_asked_for(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        with traceml.trace_step(model):
            step(model, optimizer)

    run = traced(body, mode="selective", patch_backward=True)
    assert counts(run, "backward") == [1]
    assert counts(run, "forward") == counts(run, "optimizer") == [0]
    assert "backward" in run.header["armed"]
    assert not {"forward", "optimizer", "dataloader_fetch", "h2d"} & set(run.header["armed"])


def test_manual_installs_nothing(traced: Traced, model: Any, optimizer: Any) -> None:
    before = torch.autograd.backward

    def body() -> None:
        assert torch.autograd.backward is before
        with traceml.trace_step(model):
            step(model, optimizer)
        assert model._compiled_call_impl is None

    run = traced(body, mode="manual")
    assert len(run.completed) == 1
    assert run.steps[0].get("in", {}) == {}


def test_a_step_that_is_not_about_a_module_is_timed(traced: Traced) -> None:
    def body() -> None:
        for thing in (None, "text", object()):
            with traceml.trace_step(thing):
                pass

    assert len(traced(body).completed) == 3


def test_nested_steps_count_once(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        for _ in range(3):
            with traceml.trace_step(model), traceml.trace_step(model):
                step(model, optimizer)

    run = traced(body)
    assert len(run.completed) == 3
    assert counts(run, "forward") == [1, 1, 1]
    assert run.end["losses"]["nested_step"] == 3


def test_one_object_may_be_entered_again(traced: Traced, model: Any, optimizer: Any) -> None:
    traced_step = traceml.trace_step(model)

    def body() -> None:
        for _ in range(3):
            with traced_step, traced_step:
                step(model, optimizer)

    assert len(traced(body).completed) == 3
