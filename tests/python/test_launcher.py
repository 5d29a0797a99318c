"""The launcher and `view`: signals, names, other processes, damaged runs; how a run may end is in test_endings.py."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, Run, Script, clean_environment, name_of, only_run, wait_for
from traceml_ai import _core, launcher

Scripts = Callable[..., Script]
Command = Callable[..., Ran]

INIT = 'traceml.init(logs_dir="logs")\n'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_reaches_the_script(script: Scripts, number: int) -> None:
    training = script(INIT + "print('ready', flush=True)\nwhile True: steps(5)")
    process = training.start(True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    wait_for(lambda: list(training.logs.glob("*/steps-*")), "a step")
    process.send_signal(number)
    ran = training.finish(process)
    assert ran.code == 128 + number
    assert ran.run.summary["meta"]["end_reason"] == f"signal:{name_of(number)}"


def test_a_launcher_that_is_killed_leaves_training_and_report_to_the_script(script: Scripts) -> None:
    training = script(INIT + "steps(3)\nprint('ready', flush=True)\nsys.stdin.readline()\nsteps(2)")
    process = training.start(True, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.wait()
    ran = Ran(0, *process.communicate("go on\n"), training.logs)
    assert ran.out.count("TraceML   train") == 1
    assert ran.err == ""
    assert len(ran.run.completed) == 5
    assert ran.run.summary["meta"]["complete"] is True


def test_a_signal_that_the_script_handles_is_the_script_s(script: Scripts) -> None:
    training = script(
        INIT
        + """
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print('ready', flush=True)
while not stop: steps(5)
sys.exit(17)
"""
    )
    process = training.start(True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    ran = training.finish(process)
    assert ran.code == 17
    assert ran.run.summary["meta"]["end_reason"] == "exit:17"


def test_ctrl_c_on_a_terminal_reaches_the_script_once(script: Scripts) -> None:
    training = script(
        """
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        print('ready', flush=True)
        time.sleep(1.5)
        print('interrupts', len(seen), flush=True)
        """
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(training.path.parent)
        command = training.command(True)
        os.execvpe(command[0], command, clean_environment())
    out = b""
    while b"ready" not in out:
        out += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    try:
        while True:
            data = os.read(terminal, 1000)
            if not data:
                break
            out += data
    except OSError:
        pass  # how a terminal says that nobody is on the other side
    os.waitpid(pid, 0)
    assert b"interrupts 1" in out


def test_a_script_that_crashes_before_its_first_step(script: Scripts, tmp_path: Path) -> None:
    ran = script(INIT + "raise RuntimeError('early')")(True)
    assert ran.code == 1
    assert "no step was recorded before the script ended (exit:1)" in ran.err
    assert list((tmp_path / "logs").iterdir()) == []


def test_the_launcher_s_directory_counts_in_the_script(script: Scripts, tmp_path: Path) -> None:
    ran = script('traceml.init(logs_dir="elsewhere", session_id="mine")\nsteps(3)')(True, "--run-name", "r")
    assert ran.code == 0, ran.err
    assert only_run(tmp_path / "logs").name == "r"
    assert not (tmp_path / "elsewhere").exists()


def test_a_second_session_under_the_launcher_has_a_directory_of_its_own(script: Scripts, tmp_path: Path) -> None:
    ran = script(INIT + "steps(3)\ntraceml.shutdown()\n" + INIT + "steps(4)")(True, "--run-name", "first")
    assert ran.code == 0, ran.err
    runs = {path.name: len(Run(path).completed) for path in (tmp_path / "logs").iterdir()}
    assert runs == {"first": 3, "first-2": 4}
    assert ran.err.count("\n") == 1
    assert "first-2" in ran.err


@pytest.mark.parametrize("started", ["before the first step", "after some steps"])
def test_a_second_traced_process_under_the_launcher_has_a_directory_of_its_own(
    script: Scripts, tmp_path: Path, started: str
) -> None:
    body = (
        INIT
        + """
import subprocess
if len(sys.argv) == 1 and STARTED == "after some steps":
    steps(3)
    time.sleep(0.3)
child = subprocess.Popen([sys.executable, __file__, "child"]) if len(sys.argv) == 1 else None
if child and STARTED == "before the first step":
    time.sleep(1)
steps(4 if child else 5)
time.sleep(0.3)
sys.exit(child.wait() if child else 0)
"""
    )
    ran = script(body.replace("STARTED", repr(started)))(True, "--run-name", "run")
    assert ran.code == 0, ran.err
    runs = {path.name: Run(path) for path in (tmp_path / "logs").iterdir()}
    assert sorted(runs) == ["run", "run-2"]
    assert sum(len(run.completed) for run in runs.values()) == (9 if started.startswith("before") else 12)
    for run in runs.values():
        assert run.header["run_name"] == run.run_dir.name
        assert run.summary["meta"]["end_reason"] == "finished"
        assert run.summary["losses"]["total"] == 0
    assert ran.err.count("\n") == 1
    assert f"those of this one are in {tmp_path / 'logs' / 'run-2'}" in ran.err
    assert ran.out.count("TraceML   run") == 2


def test_a_run_name_may_be_used_once(script: Scripts, tmp_path: Path) -> None:
    training = script(INIT + "steps(3)")
    assert training(True, "--run-name", "one").code == 0
    before = (tmp_path / "logs" / "one" / "final_summary.json").read_bytes()
    again = training(True, "--run-name", "one")
    assert again.code == 2
    assert (tmp_path / "logs" / "one" / "final_summary.json").read_bytes() == before


def test_disabled_runs_the_script_alone(script: Scripts, tmp_path: Path) -> None:
    training = script(INIT + "steps(3)\nprint(traceml.summary())\nsys.exit(6)")
    for options, variables in ((("--disable-traceml",), {}), ((), {"TRACEML_DISABLED": "1"})):
        ran = training(True, *options, **variables)
        assert (ran.code, ran.out, ran.err) == (6, "None\n", "")
    assert not (tmp_path / "logs").exists()


def test_options_reach_the_script(script: Scripts) -> None:
    ran = script(INIT + "steps(20)")(True, "--trace-max-steps", "7", "--summary-window-rows", "5")
    assert len(ran.run.completed) == 7
    window = ran.run.summary["step_time"]["global"]["window"]
    assert (window["steps_analyzed"], window["end_step"]) == (5, 7)


def test_view_after_kill_9_of_a_plain_run(script: Scripts, command: Command) -> None:
    training = script(INIT + "print('ready', flush=True)\nwhile True: steps(5)")
    process = training.start(False)
    assert process.stdout is not None
    process.stdout.readline()
    wait_for(lambda: [f for f in training.logs.glob("*/steps-*") if f.stat().st_size > 20000], "20 kB of steps")
    process.kill()
    ran = training.finish(process)
    assert ran.code == -signal.SIGKILL
    first = command("view", str(ran.run.run_dir))
    written = ran.run.summary
    assert first.code == 0
    assert written["meta"]["complete"] is False
    # Again, from the lines and from the summary file: the same.
    assert command("view", str(ran.run.run_dir)).out == first.out
    assert "TraceML   train" in command("view", str(ran.run.run_dir / "final_summary.json")).out


def test_view_of_a_run_that_goes_on_writes_nothing(script: Scripts, command: Command) -> None:
    training = script(INIT + "steps(20)\nprint('ready', flush=True)\nsys.stdin.readline()\nsteps(3)")
    process = training.start(False, stdin=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    run_dir = Path(wait_for(lambda: list(training.logs.glob("*/steps-*")), "a step")[0]).parent
    viewed = command("view", str(run_dir))
    assert viewed.code == 0
    assert "still running" in viewed.out
    assert "the run is still going" in viewed.out
    assert sorted(path.name for path in run_dir.iterdir()) == ["manifest.json", "steps-rank00000.jsonl"]
    process.kill()
    training.finish(process)
    assert "ended without closing" in command("view", str(run_dir)).out
    assert (run_dir / "final_summary.json").exists()


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_few_steps_and_a_short_moment_are_enough_for_a_report(script: Scripts, ending: str) -> None:
    ran = script(INIT + "steps(3)\ntime.sleep(0.2)\n" + ending)(True)
    assert len(ran.run.completed) == 3
    assert "lost   the process ended without closing: steps that completed in the last 0.1 s" in ran.out
    summary = ran.run.summary
    assert summary["losses"]["unclosed"]["ranks"] == 1
    assert summary["losses"]["unclosed"]["last_ms"] == 100


def test_a_cut_and_a_garbage_line_are_counted_and_the_rest_is_read(script: Scripts, command: Command) -> None:
    ran = script(INIT + "steps(20)")()
    file = ran.run.run_dir / "steps-rank00000.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:5], b"\xff garbage {\n", *lines[5:12], lines[12][:40]]))
    viewed = command("view", str(ran.run.run_dir))
    assert viewed.code == 0
    assert "2 lines" in viewed.err
    assert "TraceML   train" in viewed.out


def test_the_text_fits_the_output(script: Scripts) -> None:
    ran = script(INIT + "steps(5)")(False, PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert ran.out.isascii()
    assert "\x1b" not in ran.out
    ran = script(INIT.replace('"logs"', '"logs2"') + "steps(5)")(True, PYTHONIOENCODING="latin-1", NO_COLOR="1")
    assert ran.out.isascii()


def test_a_reader_that_is_gone_changes_nothing(script: Scripts) -> None:
    training = script(INIT + "steps(5)")
    for launched in (False, True):
        process = subprocess.Popen(
            training.command(launched),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=training.path.parent,
            env=clean_environment(),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        assert (process.wait(), err) == (0, b"")


@pytest.mark.parametrize(
    ("status", "recorded", "reason"),
    [
        (0, "finished", "finished"),
        (0, None, "exit:0"),
        (0, "exit:0", "exit:0"),
        (0, "signal:SIGINT", "signal:SIGINT"),
        (1 << 8, "exception", "exception"),
        (1 << 8, "finished", "exit:1"),
        (3 << 8, None, "exit:3"),
        (9, None, "signal:SIGKILL"),
        (15, "finished", "signal:SIGTERM"),
        (11 | 0x80, None, "signal:SIGSEGV"),
    ],
)
def test_end_reason(status: int, recorded: str | None, reason: str) -> None:
    assert launcher.end_reason(status, recorded) == reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", None),
        (b'{"step":1}\n', None),
        (b'{"end":{"reason":"finished"}}\n', "finished"),
        (b'{"end":{"reason":3}}\n', None),
        (b'{"end":[]}\n', None),
        (b'{"end":{"reason":"fin', None),
        (b"\xff\xfe\n", None),
        (b"x" * 200000 + b'\n{"end":{"reason":"exception"}}\n', "exception"),
    ],
)
def test_recorded_end(tmp_path: Path, content: bytes, reason: str | None) -> None:
    file = tmp_path / "steps-rank00000.jsonl"
    file.write_bytes(content)
    assert launcher.recorded_end(file) == reason


def test_the_manifest_is_completed_whole_or_not_at_all(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"run_name": "r", "end_reason": None}))
    _core.run_ended(tmp_path, "signal:SIGKILL")
    content = json.loads(manifest.read_text())
    assert (content["run_name"], content["end_reason"]) == ("r", "signal:SIGKILL")
    assert content["ended_at"].endswith("Z")
    assert list(tmp_path.iterdir()) == [manifest]
    manifest.write_text("{]")
    with pytest.raises(_core.Error):
        _core.run_ended(tmp_path, "finished")
    assert manifest.read_text() == "{]"
    manifest.unlink()
    with pytest.raises(_core.Error):
        _core.run_ended(tmp_path, "finished")
