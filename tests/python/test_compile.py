"""Training is the same with and without the tool, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts
from torch.utils.data import DataLoader, TensorDataset

Traced = Callable[..., Run]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, value: Any) -> Any:
        return self.last(self.drop(self.first(value)))


def build() -> tuple[Any, Any, Any]:
    torch.manual_seed(7)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4, shuffle=True)
    return model, optimizer, loader


def losses(model: Any, optimizer: Any, loader: Any, call: Any = None) -> list[float]:
    found = []
    for _ in range(2):
        for (value,) in loader:
            with traceml.trace_step(model):
                optimizer.zero_grad()
                loss = (model if call is None else call)(value).pow(2).sum()
                loss.backward()
                optimizer.step()
            found.append(loss.item())
    return found


def test_losses_and_random_state_are_the_same_to_the_bit(traced: Traced) -> None:
    plain = losses(*build())
    plain_state = torch.get_rng_state()
    found: list[Any] = []
    traced(lambda: found.extend([losses(*build()), torch.get_rng_state()]))
    assert found[0] == plain
    assert torch.equal(found[1], plain_state)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["function", "method"])
def test_compiled_models_keep_their_graphs(traced: Traced, when: str, how: str) -> None:
    import torch._dynamo as dynamo

    graphs: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs[-1] += 1
        return graph.forward

    def compiled(model: Any) -> Any:
        if how == "method":
            model.compile(backend=backend, fullgraph=True)
            return model
        return torch.compile(model, backend=backend, fullgraph=True)

    def train(model: Any, optimizer: Any, loader: Any, call: Any) -> list[float]:
        return losses(model, optimizer, loader, call)

    dynamo.reset()
    graphs.append(0)
    model, optimizer, loader = build()
    plain = train(model, optimizer, loader, compiled(model))

    dynamo.reset()
    graphs.append(0)
    model, optimizer, loader = build()
    call = compiled(model) if when == "before" else None
    found: list[float] = []
    run = traced(lambda: found.extend(train(model, optimizer, loader, compiled(model) if call is None else call)))
    assert found == plain
    assert graphs[1] == graphs[0]
    assert len(run.completed) == 20
    assert counts(run, "backward") == [1] * 20
    if how == "method" and when == "before":
        assert counts(run, "forward") == [1] * 20


def test_hooked_models_can_be_exported_scripted_and_traced(traced: Traced) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    value = torch.randn(2, 4)
    found: list[Any] = []

    def body() -> None:
        with traceml.trace_step(model):
            model(value).sum().backward()
        found.append(torch.jit.trace(model, value)(value))
        found.append(torch.jit.script(model)(value))
        found.append(torch.fx.symbolic_trace(model)(value))
        found.append(torch.export.export(model, (value,)).module()(value))

    traced(body)
    assert all(torch.equal(one, model(value)) for one in found)
