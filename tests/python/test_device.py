"""Which stream a step is on, and that CUDA is asked nothing before a model is on a device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run
from traceml_ai import _core
from traceml_ai.hooks import device


class Parameter:
    """What the extension asks of a parameter."""

    def __init__(self, index: int, kind: str = "cuda") -> None:
        self.index = index
        self.kind = kind

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    def get_device(self) -> int:
        return -1 if self.kind == "cpu" else self.index


class Model:
    def __init__(self, *parameters: Parameter) -> None:
        self.own = list(parameters)
        self.scans = 0


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[int]]:
    """Open a session whose stream function only remembers the devices it was asked for."""
    calls: list[int] = []

    def raw_stream(index: int) -> int:
        calls.append(index)
        return 0x7000 + index

    def find_parameter(model: Model) -> Any:
        model.scans += 1
        return next((p for p in model.own if p.is_cuda), model.own[0] if model.own else None)

    _core.open(logs_dir=str(tmp_path), run_name="run")
    _core.set_callbacks(raw_stream=raw_stream, find_parameter=find_parameter)
    yield calls
    _core.close()


def steps(model: Any, number: int = 1) -> None:
    for _ in range(number):
        with traceml.trace_step(model):
            _core.enter(_core.PHASE_OPTIMIZER, model)
            _core.leave(_core.PHASE_OPTIMIZER, model)


@pytest.mark.parametrize("kind", ["cpu", "mps", "xpu", "meta"])
def test_no_stream_is_asked_for_off_cuda(asked: list[int], kind: str) -> None:
    model = Model(Parameter(0, kind))
    steps(model, 100)
    assert asked == []
    assert model.scans == 7  # at steps 1, 2, 4, ... 64


def test_the_device_is_the_model_s_at_every_span(asked: list[int]) -> None:
    steps(Model(Parameter(1)), 3)
    assert asked == [1, 1] * 3


def test_a_model_without_parameters(asked: list[int]) -> None:
    steps(Model(), 10)
    assert asked == []


def test_a_model_that_moves_between_steps(asked: list[int]) -> None:
    parameter = Parameter(0, "cpu")
    model = Model(parameter)
    steps(model, 3)
    parameter.kind = "cuda"
    steps(model, 1)
    parameter.index = 3
    steps(model, 1)
    parameter.kind = "cpu"
    steps(model, 2)
    assert asked == [0, 0, 3, 3]


def test_a_parameter_that_was_replaced_is_looked_for_again(asked: list[int]) -> None:
    model = Model(Parameter(0))
    steps(model, 5)
    assert model.scans == 1
    model.own = [Parameter(2)]
    steps(model, 5)
    assert model.scans == 2
    assert asked == [0, 0] * 5 + [2, 2] * 5


def test_a_model_of_which_only_a_part_moves_is_noticed_late(asked: list[int]) -> None:
    model = Model(Parameter(0, "cpu"), Parameter(1, "cpu"))
    steps(model, 9)
    model.own[1].kind = "cuda"
    steps(model, 7)
    assert set(asked) == {1}


def test_an_answer_that_is_no_stream_is_no_stream(asked: list[int], tmp_path: Path) -> None:
    def failing(index: int) -> int:
        raise RuntimeError("no device")

    for wrong in (failing, lambda index: "text", lambda index: 2**100, lambda index: None):
        _core.set_callbacks(raw_stream=wrong, find_parameter=lambda model: model.own[0])
        steps(Model(Parameter(0)), 2)
    assert _core.steps_completed() == 8


def test_the_stream_function_is_none_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert device.raw_stream() is None
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert device.raw_stream() is None


def test_find_parameter_on_the_cpu() -> None:
    model = torch.nn.Linear(2, 2)
    assert device.find_parameter(model) is model.weight
    assert device.find_parameter(torch.nn.Identity()) is None


def test_fake_tensors_are_on_no_device() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        model = torch.nn.Identity()
        model.weight = torch.nn.Parameter(torch.empty(2, device="cuda"))
    assert model.weight.is_cuda
    found = device.find_parameter(model)
    assert found is None or not found.is_cuda


def test_a_cpu_run_leaves_cuda_alone(script: Any) -> None:
    ran = script("""
        traceml.init(logs_dir="logs")
        steps(5)
        traceml.shutdown()
        assert not torch.cuda.is_initialized()
    """)()
    assert ran.code == 0, ran.err
    run: Run = ran.run
    assert run.header["device"] == "cpu"
    assert run.summary["step_time"]["global"]["window"]["diagnosis_clock"] == "cpu"
