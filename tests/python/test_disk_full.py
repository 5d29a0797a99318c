"""A disk that fills during the run: training and its exit code stay, one line is said, the loss is counted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Ran, Run, Script, only_run

Scripts = Callable[..., Script]
Command = Callable[..., Ran]


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


def test_the_script_ends_as_it_would_have(script: Scripts, command: Command, small_disk: Path) -> None:
    body = f"""
traceml.init(logs_dir={str(small_disk)!r})
for _ in range(5):
    steps(100)
    time.sleep(0.7)
print("the user")
sys.exit(4)
"""
    ran = script(body)()
    assert ran.code == 4
    assert "the user" in ran.out
    assert [line for line in ran.err.splitlines() if not line.startswith("traceml: ")] == []
    assert 1 <= ran.err.count("traceml: ") <= 2, ran.err
    run = Run(only_run(small_disk))
    good = [line for line in (run.run_dir / "steps-rank00000.jsonl").read_text().splitlines() if line.endswith("}")]
    assert len(good) > 10
    viewed = command("view", str(run.run_dir))
    assert viewed.code == 0, viewed.err
    assert "TraceML   train" in viewed.out
