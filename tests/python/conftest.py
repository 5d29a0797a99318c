"""What the tests share: tiny models, sessions in this process, scripts in processes of their own, and reading runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 120

PRELUDE = """
import os, signal, sys, time
import torch
import traceml_ai as traceml
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(200, 4)), batch_size=2)

def train(batch):
    optimizer.zero_grad()
    model(batch[0]).sum().backward()
    optimizer.step()

def steps(count):
    for _, batch in zip(range(count), loader):
        with traceml.trace_step(model):
            train(batch)
"""


def read_lines(run_dir: Path, rank: int = 0) -> list[dict[str, Any]]:
    """Return the objects of a step file."""
    file = run_dir / f"steps-rank{rank:05d}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def only_run(logs: Path) -> Path:
    """Return the one run directory below `logs`."""
    runs = sorted(logs.iterdir())
    assert len(runs) == 1, runs
    return runs[0]


@dataclass
class Run:
    """What a run left behind."""

    run_dir: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        """All lines of rank 0."""
        return read_lines(self.run_dir)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Its step lines."""
        return [line for line in self.lines if "step" in line]

    @property
    def completed(self) -> list[dict[str, Any]]:
        """Its completed steps."""
        return [step for step in self.steps if "aborted" not in step.get("flags", ())]

    @property
    def header(self) -> dict[str, Any]:
        """Its header."""
        return self.lines[0]["header"]

    @property
    def end(self) -> dict[str, Any]:
        """Its end line; empty when it was not closed."""
        return self.lines[-1].get("end", {})

    @property
    def summary(self) -> dict[str, Any]:
        """Its ``final_summary.json``."""
        return json.loads((self.run_dir / "final_summary.json").read_text(encoding="utf-8"))

    @property
    def manifest(self) -> dict[str, Any]:
        """Its ``manifest.json``."""
        return json.loads((self.run_dir / "manifest.json").read_text(encoding="utf-8"))


def count(step: dict[str, Any], phase: str, region: str = "in") -> int:
    """Return how often a phase occurred in a region of a step line."""
    return step.get(region, {}).get(phase, {}).get("count", 0)


def counts(run: Run, phase: str, region: str = "in") -> list[int]:
    """Return the same for all step lines."""
    return [count(step, phase, region) for step in run.steps]


# ---- sessions in this process --------------------------------------------------------------------------------------


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    """Call with a function and the arguments of ``init``: runs it in a session and returns what was recorded."""
    import traceml_ai as traceml

    for name in [name for name in os.environ if name.startswith("TRACEML_")]:
        monkeypatch.delenv(name)
    made = 0

    def run(body: Callable[[], Any], **arguments: Any) -> Run:
        nonlocal made
        made += 1
        logs = tmp_path / f"logs{made}"
        traceml.init(logs_dir=str(logs), **arguments)
        try:
            body()
        finally:
            traceml.shutdown()
        return Run(only_run(logs))

    yield run
    traceml.shutdown()


@pytest.fixture
def model() -> Any:
    """Return a model of three modules."""
    import torch

    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))


@pytest.fixture
def optimizer(model: Any) -> Any:
    """Return its optimizer."""
    import torch

    return torch.optim.SGD(model.parameters(), lr=0.01)


# ---- scripts in processes of their own -----------------------------------------------------------------------------


@dataclass
class Ran:
    """A script that ended."""

    code: int
    out: str
    err: str
    logs: Path

    @property
    def run(self) -> Run:
        """Its run; there must be exactly one."""
        return Run(only_run(self.logs))


class Script:
    """A training script in a folder of its own.

    Parameters
    ----------
    folder : Path
        Holds the script and its logs.
    body : str
        What comes after the prelude.
    prelude : str
        Imports, a model, ``train(batch)`` and ``steps(n)``.
    """

    def __init__(self, folder: Path, body: str, prelude: str = PRELUDE) -> None:
        self.path = folder / "train.py"
        self.logs = folder / "logs"
        self.path.write_text(prelude + textwrap.dedent(body), encoding="utf-8")

    def command(self, launched: bool, *options: str) -> list[str]:
        """Return the command line: under ``traceml run``, or plain ``python``."""
        if launched:
            return [sys.executable, "-m", "traceml_ai", "run", str(self.path), *options]
        return [sys.executable, str(self.path), *options]

    def start(
        self, launched: bool, *options: str, stdin: int | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        """Start it in its folder."""
        return subprocess.Popen(
            self.command(launched, *options),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.path.parent,
            env=clean_environment(**environment),
        )

    def finish(self, process: subprocess.Popen[str]) -> Ran:
        """Wait for it."""
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"did not end within {TIMEOUT_S} s\n{out}\n{err}")
        return Ran(process.returncode, out, err, self.logs)

    def __call__(self, launched: bool = False, *options: str, **environment: str) -> Ran:
        """Run it to its end."""
        return self.finish(self.start(launched, *options, **environment))


def clean_environment(**extra: str) -> dict[str, str]:
    """Return the environment without settings of ours but `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACEML_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **extra}


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Script]:
    """Call with the body of a script."""
    return lambda body, **options: Script(tmp_path, body, **options)


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Ran]:
    """Call with the arguments of ``traceml``."""

    def run(*arguments: str, **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "traceml_ai", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=clean_environment(**environment),
            timeout=TIMEOUT_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, tmp_path / "logs")

    return run


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Return the first true answer of `condition`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.02)
    pytest.fail(f"not within {seconds} s: {what}")


def name_of(number: int) -> str:
    """Return the name of a signal."""
    return signal.Signals(number).name
