"""How a model is trained, as seen on the model that ``trace_step`` is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
import traceml_ai as traceml
from conftest import Run
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

Traced = Callable[..., Run]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """Be the one rank of a process group."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def strategy(traced: Traced, *models: Any) -> str:
    """Return what the summary says of a run that trains these models in turn."""

    def body() -> None:
        for model in models:
            for _ in range(2):
                with traceml.trace_step(model):
                    model(torch.randn(2, 4)).sum().backward()

    run = traced(body)
    assert len(run.completed) == 2 * len(models)
    return run.summary["meta"]["environment"]["strategy"]


def test_a_model_of_its_own(traced: Traced, model: Any) -> None:
    assert strategy(traced, model) == "none"


def test_a_wrapper_is_seen(traced: Traced, group: None, model: Any) -> None:
    assert strategy(traced, DistributedDataParallel(model)) == "DDP"


def test_a_model_that_is_sharded_in_place_is_seen(traced: Traced, group: None, model: Any) -> None:
    assert strategy(traced, fully_shard(model, mesh=init_device_mesh("cpu", (1,)))) == "FSDP"


def test_a_model_of_which_a_part_is_sharded_is_seen(traced: Traced, group: None, model: Any) -> None:
    fully_shard(model[0], mesh=init_device_mesh("cpu", (1,)))
    assert strategy(traced, model) == "FSDP"


def test_the_inner_module_shows_no_wrapper_and_alone_there_is_none(traced: Traced, group: None, model: Any) -> None:
    DistributedDataParallel(model)
    assert strategy(traced, model) == "none"


def test_the_inner_module_of_several_ranks_may_be_of_any(
    traced: Traced, group: None, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert strategy(traced, model) == "unknown"


def test_a_later_model_may_say_what_the_first_did_not(traced: Traced, group: None, model: Any) -> None:
    assert strategy(traced, torch.nn.Linear(4, 1), DistributedDataParallel(model)) == "DDP"
