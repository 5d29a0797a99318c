"""Every view of a report shows one value, one clock and one state for a metric. A new view joins by a line in VIEWS."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Ran, Run, Script
from torch.utils.data import DataLoader, TensorDataset
from traceml_ai import _core
from traceml_ai.cli import view

STEPS = 30
LABELS = {
    "iteration": "iteration_ms",
    "input wait": "input_wait_ms",
    "other before step": "pre_step_other_ms",
    "traced step": "traced_step_time_ms",
    "H2D": "h2d_ms",
    "H2D before step": "pre_step_h2d_ms",
    "forward": "forward_ms",
    "backward": "backward_ms",
    "optimizer": "optimizer_ms",
    "evaluation": "evaluation_ms",
    "TraceML": "instrumentation_ms",
    "residual": "residual_ms",
}
ROW = re.compile(r"^  [ │├└─]*(?P<label>\S.*?) +(?:(?P<value><?-?[\d.]+) ms|(?P<null>n/a))(?P<note>.*)$")


@dataclass(frozen=True)
class Shown:
    """What a view says of one metric.

    Attributes
    ----------
    value : float or None
        In ms; None where it says that there is none.
    state : str
        ``null``, ``partial``, ``none seen`` or ``whole``.
    half_unit : float
        How far rounding may have moved the value.
    """

    value: float | None
    state: str
    half_unit: float = 0.0


View = tuple[str, dict[str, Shown]]  # the clock, and the metrics


# ---- views ---------------------------------------------------------------------------------------------------------


def of_text(text: str) -> View:
    """Read a report's tree."""
    shown = {}
    tree = text.partition(" clock, mean of ")
    for line in tree[2].split("\n\n")[0].splitlines():
        row = ROW.match(line)
        if row is None or row["label"] not in LABELS:
            continue
        value, note = row["value"], row["note"]
        if value is None:
            assert re.fullmatch(r" \(.+\)", note), f"no reason beside n/a: {line}"
            shown[LABELS[row["label"]]] = Shown(None, "null")
            continue
        state = "partial" if "partial: " in note else "none seen" if "none seen" in note else "whole"
        unit = 10.0 ** -len(value.partition(".")[2])
        below = value.startswith("<")
        number = unit / 2 if below else float(value)
        assert below or number != 0.0 or float(value) == 0.0
        shown[LABELS[row["label"]]] = Shown(number, state, unit / 2)
    return tree[0][-3:].lower(), shown


def of_payload(payload: dict[str, Any]) -> View:
    """Read a summary: the JSON file, or what ``final_summary()`` returns."""
    overall = payload["step_time"]["global"]
    shown = {}
    for name, status in overall["status"].items():
        value = overall["median"][name]["value"]
        state = "null" if value is None else "partial" if status["coverage"] == "partial" else "whole"
        if state == "whole" and status["reason"] == "never_observed":
            state = "none seen"
        assert value is not None or status["reason"], f"{name} is null without a reason"
        assert overall["average"][name] == value  # one rank
        shown[name] = Shown(value, state)
    return overall["window"]["diagnosis_clock"], shown


def of_flat(flat: dict[str, Any]) -> View:
    """Read what ``summary()`` returns."""
    shown = {}
    for key, state in flat.items():
        name = key.removeprefix("traceml/").removesuffix("_status")
        if not key.endswith("_ms_status"):
            continue
        value = flat.get(f"traceml/{name}")
        word = "partial" if state.startswith("partial") else "none seen" if "never_observed" in state else "whole"
        shown[name] = Shown(value, "null" if value is None else word)
    return flat["traceml/step_time/diagnosis_clock"], shown


def on_terminal(run: Run, capsys: pytest.CaptureFixture[str]) -> View:
    """Print the report as a script does."""
    capsys.readouterr()
    traceml.final_summary(print_text=True)
    return of_text(capsys.readouterr().out)


def by_command(run: Run, capsys: pytest.CaptureFixture[str]) -> View:
    """``traceml view`` of the run directory."""
    capsys.readouterr()
    assert view.main([str(run.run_dir)]) == 0
    return of_text(capsys.readouterr().out)


VIEWS: dict[str, Callable[[Run, Any], View]] = {
    "final_summary()": lambda run, capsys: of_payload(traceml.final_summary() or {}),
    "summary()": lambda run, capsys: of_flat(traceml.summary() or {}),
    "final_summary.json": lambda run, capsys: of_payload(run.summary),
    "final_summary.txt": lambda run, capsys: of_text((run.run_dir / "final_summary.txt").read_text("utf-8")),
    "text in the JSON": lambda run, capsys: of_text(run.summary["text"]),
    "card": lambda run, capsys: of_text(run.summary["step_time"]["card"]),
    "terminal": on_terminal,
    "traceml view": by_command,
}


# ---- runs in every state -------------------------------------------------------------------------------------------


def cell(ms: float, on_gpu: bool, count: int = 1) -> dict[str, Any]:
    return {"count": count, "cpu_ms": ms, "gpu_ms": ms if on_gpu else None}


def step_line(step: int, on_gpu: bool, before: dict[str, float], inside: dict[str, float]) -> dict[str, Any]:
    """Return a step whose ledger closes: 2.5 ms of residual, 0.5 between the steps, 0.02 of ours."""
    traced = sum(inside.values()) + 2.5 + 0.02
    terms = {
        "iteration_ms": None if step == 1 else sum(before.values()) + 0.5 + traced,
        "traced_step_ms": traced,
        "pre_step_other_ms": None if step == 1 else 0.5,
        "residual_ms": 2.5,
        "instrumentation_pre_ms": 0.0,
        "instrumentation_ms": 0.02,
    }
    line: dict[str, Any] = {"step": step, "iteration": step, "end_ms": step * 50.0, "epoch": 0, "microbatches": 1}
    if step == 1:
        line["flags"] = ["first_iteration"]
    line["cpu"] = terms
    if on_gpu:
        line["gpu"] = terms
    if not on_gpu or step == 1:
        line["gpu_reason"] = "first_iteration" if on_gpu else "no_cuda"
    line["pre"] = {phase: cell(ms, on_gpu) for phase, ms in before.items()}
    line["in"] = {phase: cell(ms, on_gpu) for phase, ms in inside.items()}
    return line


FETCH = {"dataloader_fetch": 1.0}
COMPUTE = {"forward": 10.0, "backward": 20.0, "optimizer": 1.0}
HOOKS = ["step", "dataloader_fetch", "forward", "backward", "optimizer"]


def without(phase: str) -> dict[str, float]:
    return {name: ms for name, ms in COMPUTE.items() if name != phase}


# name: (on a GPU, armed phases, before the step, inside of step n)
RUNS: dict[str, tuple[bool, list[str], dict[str, float], Callable[[int], dict[str, float]]]] = {
    "whole": (False, HOOKS, FETCH, lambda step: COMPUTE),
    "a measured zero": (False, HOOKS, FETCH, lambda step: {**COMPUTE, "forward": 0.0}),
    "none seen": (False, HOOKS, FETCH, lambda step: without("optimizer")),
    "never seen": (False, HOOKS, FETCH, lambda step: without("forward")),
    "not installed": (False, HOOKS[:4], FETCH, lambda step: without("optimizer")),
    "partial": (False, HOOKS, FETCH, lambda step: COMPUTE if step == 2 else without("forward")),
    "an evaluation": (False, HOOKS, FETCH, lambda step: {**COMPUTE, **({"evaluation": 9.0} if step == 9 else {})}),
    "copies not observed": (True, HOOKS, FETCH, lambda step: COMPUTE),
    "copies before the step": (True, HOOKS, {**FETCH, "h2d": 1.7}, lambda step: COMPUTE),
    "copies in both": (True, HOOKS, {**FETCH, "h2d": 1.7}, lambda step: {**COMPUTE, "h2d": 0.3}),
}


@pytest.fixture
def any_run(traced: Callable[..., Run], model: torch.nn.Module) -> Run:
    """Return a run of this process: what it recorded is replaced, what the session knows of it stays."""

    def body() -> None:
        for (value,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
            with traceml.trace_step(model):
                model(value).sum().backward()

    return traced(body)


def report_of(run: Run, name: str) -> tuple[str, str]:
    """Put the steps of a run of RUNS in the place of its own; return its JSON and text."""
    on_gpu, armed, before, inside = RUNS[name]
    header = {**run.header, "armed": armed, "device": "cuda:0" if on_gpu else "cpu"}
    lines = [{"header": header}, *(step_line(n, on_gpu, before, inside(n)) for n in range(1, STEPS + 1))]
    lines.append({"end": {**run.end, "armed": armed}})
    file = run.run_dir / "steps-rank00000.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    payload, text, bad_lines = _core.read_report(run.run_dir)
    assert bad_lines == 0
    return payload, text


@pytest.mark.parametrize("name", RUNS)
def test_every_view_shows_the_same(any_run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _core.write_report(any_run.run_dir, *report_of(any_run, name))
    clock, expected = VIEWS["final_summary()"](any_run, capsys)
    assert clock == ("gpu" if RUNS[name][0] else "cpu")
    for view_name, read in VIEWS.items():
        its_clock, shown = read(any_run, capsys)
        assert its_clock == clock, view_name
        assert set(shown) >= {"forward_ms", "h2d_ms", "input_wait_ms"}, view_name
        for metric, its in shown.items():
            true = expected[metric]
            assert its.state == true.state, (view_name, metric)
            assert (its.value is None) == (true.value is None), (view_name, metric)
            if its.value is not None and true.value is not None:
                assert abs(its.value - true.value) <= its.half_unit + 1e-9, (view_name, metric)
                assert (its.value == 0.0) == (true.value == 0.0), (view_name, metric)


@pytest.mark.parametrize(
    ("name", "metric", "state"),
    [
        ("whole", "forward_ms", "whole"),
        ("a measured zero", "forward_ms", "whole"),
        ("none seen", "optimizer_ms", "none seen"),
        ("never seen", "forward_ms", "null"),
        ("not installed", "optimizer_ms", "null"),
        ("partial", "forward_ms", "partial"),
        ("whole", "evaluation_ms", "null"),
        ("an evaluation", "evaluation_ms", "whole"),
        ("copies not observed", "h2d_ms", "null"),
        ("copies before the step", "h2d_ms", "null"),
        ("copies in both", "h2d_ms", "partial"),
    ],
)
def test_these_runs_are_in_the_states_that_they_are_named_for(
    any_run: Run, name: str, metric: str, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    test_every_view_shows_the_same(any_run, name, capsys)
    assert VIEWS["final_summary()"](any_run, capsys)[1][metric].state == state


def keys_of(value: Any, in_map: bool = False) -> set[str]:
    """Return the names of all fields; where a name is data (a rank, a time of the step file), of what is below."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    if not isinstance(value, dict):
        return set()
    found = set() if in_map else set(value)
    for key, below in value.items():
        found |= keys_of(below, in_map=key in ("rows", "ranks", "times_ms", "causes"))
    return found


def test_every_field_of_a_summary_is_in_its_document(any_run: Run) -> None:
    document = (Path(__file__).parents[2] / "docs" / "summary-format.md").read_text("utf-8")
    diagnosis = {key for finding in any_run.summary["step_time"]["issues"] for key in finding["evidence"]}
    others = {"evidence", *diagnosis, *any_run.summary["primary_diagnosis"]["evidence"]}
    payload = {name: any_run.summary[name] for name in ("meta", "run", "losses", "overhead", "step_time")}
    known = set(re.findall(r"[a-z0-9_]+", document))
    assert sorted((keys_of(payload) | set(any_run.summary)) - known - others) == []


def test_every_example_of_the_guide_is_real(any_run: Run) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "reading-output.md").read_text("utf-8")
    examples = re.findall(r"<!-- run: ([^\n]+) -->\n```\n(.*?)```", guide, re.DOTALL)
    assert {name for name, _ in examples} == set(RUNS)
    for name, lines in [("whole", guide.split("```")[1]), *examples]:
        shown = report_of(any_run, name)[1].splitlines()
        assert [
            line for line in lines.splitlines() if line and not line.startswith("  run ") and line not in shown
        ] == []


def test_the_window_is_settable_from_the_command_to_every_view(
    script: Callable[..., Script], command: Callable[..., Ran]
) -> None:
    ran = script(
        """
        traceml.init()
        steps(20)
        print(traceml.final_summary()["step_time"]["global"]["window"]["window_size"])
        """
    )(True, "--summary-window-rows", "5")
    window = ran.run.summary["step_time"]["global"]["window"]
    assert "5\n" in ran.out
    assert (window["window_size"], window["start_step"], window["end_step"]) == (5, 16, 20)
    assert "steps 16-20 of 20" in ran.out
    seen = command("view", str(ran.run.run_dir), TRACEML_SUMMARY_WINDOW_ROWS="7")
    assert "steps 14-20 of 20" in seen.out
    refused = command("view", str(ran.run.run_dir), TRACEML_SUMMARY_WINDOW_ROWS="none")
    assert refused.code == 2
    assert "TRACEML_SUMMARY_WINDOW_ROWS" in refused.err
