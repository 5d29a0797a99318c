"""Job: the ranks of one launch. They share a run directory, so they must agree on its name before they can talk."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from traceml_ai import process
from traceml_ai.launcher import recorded_end

NAMES_TRIED = 1000
WAITED_S = 1.5  # a process must not seem to hang at its end


def world_size() -> int:
    """Return how many ranks the launcher started; 1 without one."""
    return max(process.number_from_environment("WORLD_SIZE", 1), 1)


def shared_name(program: str) -> str | None:
    """Return the name that all ranks of this job come to by themselves; None when nothing says what they belong to.

    The launcher's own id comes first. That of torchrun is "none" unless one was given: then, on one node, its process
    is what the ranks have in common. A restart by torchrun is a run of its own.
    """
    environ = os.environ
    elastic, slurm = environ.get("TORCHELASTIC_RUN_ID", ""), environ.get("SLURM_JOB_ID", "")
    if elastic not in ("", "none"):
        name = elastic
    elif slurm:
        name = f"{slurm}.{environ.get('SLURM_STEP_ID', '0')}"
    elif elastic and process.number_from_environment("LOCAL_WORLD_SIZE", 0) == world_size():
        name = f"torchrun{os.getppid()}"
    else:
        return None
    restarts = process.number_from_environment("TORCHELASTIC_RESTART_COUNT", 0)
    again = f"_restart{restarts}" if restarts else ""
    return re.sub(r"[^\w.-]+", "-", f"{program}_{name}{again}")


def free_names(logs_dir: str, name: str, rank: int) -> Iterator[str]:
    """Yield `name`, then with suffixes, leaving out those that an earlier job took: all ranks see the same ones."""
    since = _launched_at()
    for number in range(1, NAMES_TRIED):
        candidate = name if number == 1 else f"{name}-{number}"
        if not _taken(Path(logs_dir) / candidate, rank, since):
            yield candidate


def _taken(run_dir: Path, rank: int, since: float) -> bool:
    """Whether it holds steps of this rank, or of any rank from before our launcher started."""
    files = list(run_dir.glob("steps-rank*.jsonl"))
    with contextlib.suppress(OSError):
        return any(file.name == f"steps-rank{rank:05d}.jsonl" or file.stat().st_mtime < since for file in files)
    return True


def _launched_at() -> float:
    """Return when our parent started, by the wall clock, to the second; files of before are not of this job."""
    age = process.seconds_since_start(os.getppid())
    return time.time() - age - 1 if age is not None else 0.0


def wait_for_ranks(run_dir: str, ranks: int) -> None:
    """Wait, not for long, until every rank has written the end of its steps: the report then has all of them."""
    deadline = time.monotonic() + WAITED_S
    while time.monotonic() < deadline:
        files = list(Path(run_dir).glob("steps-rank*.jsonl"))
        if len(files) >= ranks and all(_ended(file) for file in files):
            return
        time.sleep(0.02)


def _ended(file: Path) -> bool:
    with contextlib.suppress(OSError):
        return recorded_end(file) is not None
    return False
