"""An optimizer step that a gradient scaler leaves out is absent with a reason, and not zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, counts

Traced = Callable[..., Run]


def train(model: Any, optimizer: Any, scaler: Any, infinite: bool) -> None:
    with traceml.trace_step(model):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 4)).sum()
        scaler.scale(loss * float("inf") if infinite else loss).backward()
        scaler.step(optimizer)
        scaler.update()


def test_a_skipped_step_is_flagged_and_no_zero(traced: Traced, model: Any, optimizer: Any) -> None:
    scaler = torch.amp.GradScaler("cpu")

    def body() -> None:
        for index in range(21):
            train(model, optimizer, scaler, infinite=index % 4 == 2)

    run = traced(body)
    skipped = [index % 4 == 2 for index in range(21)]
    assert counts(run, "optimizer") == [0 if skip else 1 for skip in skipped]
    assert ["optimizer_skipped" in line.get("flags", ()) for line in run.steps] == skipped
    section = run.summary["step_time"]["global"]
    status = section["status"]["optimizer_ms"]
    assert (status["availability"], status["coverage"], status["reason"]) == ("available", "partial", "scaler_skipped")
    assert (status["steps_observed"], status["steps_expected"]) == (15, 20)
    ran = [line["in"]["optimizer"]["cpu_ms"] for line in run.steps[1:] if "optimizer" in line["in"]]
    assert section["average"]["optimizer_ms"] == pytest.approx(sum(ran) / 15, abs=1e-5)
    assert section["status"]["compute_ms"]["steps_observed"] == 20  # nothing of it is unknown
    assert section["status"]["residual_ms"]["steps_observed"] in (20, 0)
    assert "the gradient scaler left it out" in run.summary["text"]


def test_the_scaler_works_as_before_and_is_put_back(traced: Traced, model: Any) -> None:
    original = torch.amp.GradScaler.step
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def body() -> None:
        assert torch.amp.GradScaler.step is not original
        assert torch.amp.GradScaler.step.__doc__ == original.__doc__
        scaler = torch.amp.GradScaler("cpu")
        train(model, optimizer, scaler, infinite=False)
        assert not optimizer._optimizer_step_pre_hooks
        scaler.scale(model(torch.randn(2, 4)).sum()).backward()
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
            scaler.step(optimizer)
        assert not optimizer._optimizer_step_pre_hooks

    run = traced(body)
    assert torch.amp.GradScaler.step is original
    assert counts(run, "optimizer") == [1]


def test_outside_of_a_step_nothing_is_said(traced: Traced, model: Any, optimizer: Any) -> None:
    def body() -> None:
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(model(torch.randn(2, 4)).sum() * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        train(model, optimizer, scaler, infinite=False)

    assert [line.get("flags") for line in traced(body).steps] == [["first_iteration"]]
