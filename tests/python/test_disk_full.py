"""A disk that fills during the run: training and its exit code stay, one line is said, the loss is counted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Ran, Run, Script, only_run

Scripts = Callable[..., Script]
Command = Callable[..., Ran]

STEPS = 500


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.parametrize("launched", [False, True])
def test_the_script_ends_as_it_would_have_and_the_loss_is_counted(
    script: Scripts, command: Command, small_disk: Path, launched: bool
) -> None:
    body = f"""
traceml.init(logs_dir={str(small_disk)!r})
for _ in range(5):
    steps({STEPS // 5})
    time.sleep(0.2)
print("the user")
sys.exit(4)
"""
    ran = script(body)(launched, *(("--logs-dir", str(small_disk)) if launched else ()))
    assert ran.code == 4
    assert "the user" in ran.out
    assert ran.out.count("TraceML   train") == 1
    assert "final_summary.json" not in ran.out
    run = Run(only_run(small_disk))
    kept = len(run.completed)
    assert 10 < kept < STEPS
    assert ran.err.count("\n") == 1, ran.err
    assert "No space left on device" in ran.err
    assert f"{STEPS - kept} steps could not be written" in ran.err
    assert run.end["losses"]["unwritten"] == STEPS - kept
    viewed = command("view", str(run.run_dir))
    assert viewed.code == 0, viewed.err
    assert f"{STEPS - kept} step lines that could not be written" in " ".join(viewed.out.split())


@pytest.mark.parametrize("launched", [False, True])
def test_a_directory_that_was_removed_is_told_as_such(script: Scripts, launched: bool) -> None:
    body = """
import pathlib, shutil
traceml.init(logs_dir="logs")
steps(5)
traceml.summary()
for run in pathlib.Path("logs").iterdir():
    shutil.rmtree(run)
steps(5)
"""
    ran = script(body)(launched)
    assert ran.code == 0
    assert ran.err.count("\n") == 1, ran.err
    assert "is gone" in ran.err
