"""Every example runs as its head says, and reports what it is there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run, clean_environment, only_run

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_quickstart_learns_and_reports(tmp_path: Path) -> None:
    out = run_example(tmp_path, sys.executable, "-m", "traceml_ai", "run", str(EXAMPLES / "quickstart.py"))
    assert float(out.split("epoch 10")[1].split("accuracy")[1].split()[0]) > 0.95
    run = Run(only_run(tmp_path / "logs"))
    assert len(run.completed) == 280
    assert run.summary["meta"]["complete"] is True
    window = run.summary["step_time"]["global"]
    assert window["window"]["steps_analyzed"] == 270
    for metric in ("forward_ms", "backward_ms", "optimizer_ms", "input_wait_ms"):
        assert window["status"][metric]["availability"] == "available"
        assert window["average"][metric] > 0


def test_the_slow_loader_is_input_bound(tmp_path: Path) -> None:
    script = str(EXAMPLES / "slow_dataloader.py")
    run_example(tmp_path, sys.executable, "-m", "traceml_ai", "run", script, "--", "--workers", "0", "--steps", "30")
    summary = Run(only_run(tmp_path / "logs")).summary
    assert summary["primary_diagnosis"]["kind"] == "INPUT_BOUND"
    assert summary["meta"]["environment"]["loader"]["workers"] == 0


def test_two_clocks_shows_three_ways(tmp_path: Path) -> None:
    out = run_example(tmp_path, sys.executable, str(EXAMPLES / "two_clocks.py"))
    table = [line for line in out.splitlines() if line.rstrip().endswith(" ms") and line.startswith("  ")]
    rows = [line for line in table if line.split()[0] in ("wall", "TraceML,")]
    assert len(rows) == 3, out
    for row in rows:
        forward_ms, step_ms = (float(number) for number in re.findall(r"([0-9.]+) ms", row))
        assert 0 < forward_ms < step_ms, row
    window = Run(only_run(tmp_path / "logs")).summary["step_time"]["global"]["window"]
    assert window["steps_analyzed"] == 60, "the steps that the other two rows are of"


def shape(report: str) -> tuple[str, list[str]]:
    """Return the first line and the labels of the others, without what a run decides: numbers, units and names."""
    first, *lines = report.strip().splitlines()
    labels = [
        re.match(r"[ ├└│─]*([A-Za-z]\w*(?: [a-z]+)*)?", line) for line in lines if not line.startswith("         ")
    ]
    first = re.sub(r"\d+(\.\d+)? (s|ms)\b", "# s", first.replace("slow0", "NAME"))
    return re.sub(r"\d+", "#", first), [label[1] for label in labels if label and label[1]]


def test_the_report_in_the_readme_has_the_shape_of_todays(tmp_path: Path) -> None:
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    command, sample = readme.split("```\n$ traceml ")[1].split("```")[0].split("\n", 1)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    run_example(tmp_path, sys.executable, "-m", "traceml_ai", *command.split())
    today = (only_run(tmp_path / "logs") / "final_summary.txt").read_text(encoding="utf-8")
    assert shape(sample) == shape(today)


def test_the_c_program_gets_the_same_report(tmp_path: Path) -> None:
    program = os.environ.get("TRACEML_PLAIN_LOOP")
    if not program:
        pytest.skip("TRACEML_PLAIN_LOOP does not name the built example")
    out = run_example(tmp_path, program, "logs")
    run = Run(only_run(tmp_path / "logs"))
    assert len(run.completed) == 200
    assert "TraceML   plain_loop" in out
    assert run.summary["meta"]["complete"] is True
    assert run.summary["primary_diagnosis"]["kind"] == "INPUT_BOUND"  # as its head says: its steps are above the floor
