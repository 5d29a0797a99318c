"""Several ranks: one run directory that they come to by themselves, one report, and the rank that holds others up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT_S, Script, clean_environment, only_run, read_lines
from traceml_ai import job

DDP = """
    import torch.distributed as dist

    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model
            self.extra_s = 0.05 if dist.get_rank() == 1 else 0.0

        def forward(self, x):
            time.sleep(self.extra_s)
            return self.inner(x)

    dist.init_process_group("gloo")
    ddp = torch.nn.parallel.DistributedDataParallel(Slow())
    traceml.init()
    for _, batch in zip(range(30), loader):
        with traceml.trace_step(ddp):
            optimizer.zero_grad()
            ddp(batch[0]).sum().backward()
            optimizer.step()
    dist.destroy_process_group()
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(rank: int, ranks: int, **extra: str) -> dict[str, str]:
    """Return what torchrun would set."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        **extra,
    }


def run_ranks(script: Script, ranks: int = 2, **extra: str) -> None:
    """Run the script once a rank, beside each other, as a launcher does."""
    started = [script.start(False, **environment(rank, ranks, **extra)) for rank in range(ranks)]
    for process in started:
        ran = script.finish(process)
        assert ran.code == 0, ran.err


def test_a_rank_that_is_slow_in_forward_is_named(script: Any) -> None:
    prepared = script(DDP)
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
    ]
    done = subprocess.run(
        [*torchrun, str(prepared.path)],
        capture_output=True,
        text=True,
        cwd=prepared.path.parent,
        env=clean_environment(OMP_NUM_THREADS="1"),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run_dir = only_run(prepared.logs)
    assert len([line for line in read_lines(run_dir, 1) if "step" in line]) == 30
    assert sum(line.startswith("TraceML ") for line in done.stdout.splitlines()) == 1, done.stdout
    text = (run_dir / "final_summary.txt").read_text(encoding="utf-8")
    assert text.splitlines()[2].startswith("COMPUTE STRAGGLER"), text
    assert "rank 1 holds rank 0 up" in " ".join(text.split())
    assert "2 ranks" in text.splitlines()[0]


def test_ranks_share_a_directory_by_the_launchers_id(script: Any) -> None:
    prepared = script("traceml.init(); steps(5)")
    run_ranks(prepared, 3, TORCHELASTIC_RUN_ID="job 7")
    run_dir = only_run(prepared.logs)
    assert run_dir.name == "train_job-7"
    assert [len(read_lines(run_dir, rank)) > 5 for rank in range(3)] == [True] * 3


def test_a_second_job_of_one_name_takes_the_next_suffix_with_all_its_ranks(script: Any) -> None:
    prepared = script("traceml.init(session_id='mine'); steps(3)")
    run_ranks(prepared, 2)
    for file in (prepared.logs / "mine").iterdir():
        os.utime(file, (0, 0))  # written before the launcher of the second one started
    run_ranks(prepared, 3)
    found = {run.name: len(list(run.glob("steps-rank*.jsonl"))) for run in prepared.logs.iterdir()}
    assert found == {"mine": 2, "mine-2": 3}


def test_ranks_without_a_common_name_do_not_share(script: Any) -> None:
    prepared = script("traceml.init(); steps(3)")
    run_ranks(prepared, 2)
    assert len(list(prepared.logs.iterdir())) == 2


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"TORCHELASTIC_RUN_ID": "a/b"}, "train_a-b"),
        ({"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"}, "train_a_restart2"),
        ({"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "4"}, f"train_torchrun{os.getppid()}"),
        ({"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "2"}, None),
        ({"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "2", "SLURM_JOB_ID": "31"}, "train_31.0"),
        ({"SLURM_JOB_ID": "31", "SLURM_STEP_ID": "2"}, "train_31.2"),
        ({}, None),
    ],
)
def test_the_common_name(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str | None) -> None:
    for variable in list(os.environ):
        if variable.startswith(("TORCHELASTIC_", "SLURM_", "LOCAL_WORLD")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("WORLD_SIZE", "4")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert job.shared_name("train") == name


def test_waiting_for_ranks_ends_when_all_have_ended_or_when_it_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "WAITED_S", 0.1)
    for rank in range(2):
        (tmp_path / f"steps-rank{rank:05d}.jsonl").write_text('{"step":1}\n{"end":{"reason":"finished"}}\n')
    job.wait_for_ranks(str(tmp_path), 2)
    job.wait_for_ranks(str(tmp_path), 3)
