"""The whole path: under the launcher and plain, to its proper end and to every other."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from conftest import Ran, Script

Scripts = Callable[..., Script]
Command = Callable[..., Ran]

INIT = 'traceml.init(logs_dir="logs")\n'


@pytest.mark.parametrize("launched", [True, False])
def test_a_run_to_its_end(script: Scripts, launched: bool) -> None:
    ran = script(INIT + "steps(20)\nprint('the user')")(launched)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert ran.out.startswith("the user\n")
    assert ran.out.count("TraceML   train") == 1
    run = ran.run
    assert sorted(path.name for path in run.run_dir.iterdir()) == [
        "final_summary.json",
        "final_summary.txt",
        "manifest.json",
        "steps-rank00000.jsonl",
    ]
    assert len(run.completed) == 20
    assert run.end["reason"] == run.manifest["end_reason"] == "finished"
    meta = run.summary["meta"]
    assert (meta["complete"], meta["end_reason"], meta["world_size"]) == (True, "finished", 1)
    assert meta["environment"]["strategy"] == "none"
    assert meta["environment"]["loader"]["batch_size"] == 2
    assert meta["environment"]["torch"]
    assert run.summary["run"]["process_s"] > 0


ENDINGS = [
    ("pass", 0, "finished"),
    ("sys.exit(3)", 3, "exit:3"),
    ("with traceml.trace_step(model): sys.exit(5)", 5, "exit:5"),
    ("with traceml.trace_step(model): raise SystemExit", 0, "exit:0"),
    ("raise RuntimeError('the user')", 1, "exception"),
    ("with traceml.trace_step(model): raise RuntimeError('the user')", 1, "exception"),
    ("os._exit(0)", 0, "exit:0"),
    ("os._exit(9)", 9, "exit:9"),
    ("os.kill(os.getpid(), signal.SIGINT)", -2, "signal:SIGINT"),
    ("os.kill(os.getpid(), signal.SIGTERM)", -15, "signal:SIGTERM"),
    ("os.kill(os.getpid(), signal.SIGKILL)", -9, "signal:SIGKILL"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", -11, "signal:SIGSEGV"),
    ("os.abort()", -6, "signal:SIGABRT"),
]


@pytest.mark.parametrize(("ending", "code", "reason"), ENDINGS, ids=[ending for ending, _, _ in ENDINGS])
def test_every_ending_under_the_launcher(script: Scripts, ending: str, code: int, reason: str) -> None:
    ran = script(INIT + "steps(20)\ntime.sleep(1.2)\n" + ending)(True)
    assert ran.code == (code if code >= 0 else 128 - code)
    meta = ran.run.summary["meta"]
    assert meta["end_reason"] == ran.run.manifest["end_reason"] == reason
    assert meta["complete"] is (reason == "finished")
    assert len(ran.run.completed) == 20
    assert ran.out.count("TraceML   train") == 1
    assert "traceml:" not in ran.err


@pytest.mark.parametrize(("ending", "code", "reason"), ENDINGS, ids=[ending for ending, _, _ in ENDINGS])
def test_every_ending_of_a_plain_run(script: Scripts, command: Command, ending: str, code: int, reason: str) -> None:
    ran = script(INIT + "steps(20)\ntime.sleep(1.2)\n" + ending)()
    run = ran.run
    assert ran.code == code
    assert len(run.completed) == 20
    assert "traceml" not in ran.err.replace("with traceml.trace_step", "")
    if (run.run_dir / "final_summary.json").exists():
        assert run.summary["meta"]["end_reason"] == run.manifest["end_reason"] == reason
        assert ("complete" in ran.out.splitlines()[0].split()) is (reason == "finished")
        assert run.summary["text"] == (run.run_dir / "final_summary.txt").read_text(encoding="utf-8")
        assert ran.out.count("TraceML   train") == 1
        return
    assert ran.out == ""
    viewed = command("view", str(run.run_dir))
    assert viewed.code == 0
    assert viewed.out.count("TraceML   train") == 1
    meta = run.summary["meta"]
    assert (meta["complete"], meta["end_reason"]) == (False, "unknown")
    assert run.summary["step_time"]["global"]["window"]["end_step"] == 20


@pytest.mark.parametrize(("ending", "code"), [("raise SystemExit('text')", 1), ("exit(4)", 4), ("sys.exit(300)", 44)])
def test_an_exit_code_between_steps_is_never_finished(
    script: Scripts, command: Command, ending: str, code: int
) -> None:
    ran = script(INIT + "steps(5)\nprint('the user', end='')\n" + ending)()
    assert ran.code == code
    assert ran.out.startswith("the userTraceML   train")  # after all that the script printed
    assert f"incomplete: exit code {code}" in ran.out
    assert f"incomplete: exit code {code}" in command("view", str(ran.run.run_dir)).out


@pytest.mark.parametrize(("ending", "notes"), [("pass", 1), ("sys.exit(0)", 1), ("sys.exit(2)", 0)])
def test_who_failed_before_the_first_step_is_not_told_to_trace(script: Scripts, ending: str, notes: int) -> None:
    ran = script(INIT + ending)()
    assert ran.err.count("traceml: no step was traced") == ran.err.count("\n") == notes
    assert ran.out == ""


def test_a_caught_exit_changes_nothing(script: Scripts) -> None:
    ran = script(INIT + "steps(3)\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    pass\nsteps(2)")()
    assert ran.run.summary["meta"]["end_reason"] == "finished"


def test_with_a_stdout_of_its_own_the_text_goes_there_and_the_files_know_the_code(script: Scripts) -> None:
    ran = script(
        INIT
        + """
class Tee:
    encoding = "utf-8"
    def write(self, text): sys.stderr.write(text)
    def flush(self): pass
sys.stdout = Tee()
steps(3)
sys.exit(3)
"""
    )()
    assert ran.out == ""
    assert ran.err.count("TraceML   train") == 1
    assert ran.run.summary["meta"]["end_reason"] == "exit:3"


@pytest.mark.parametrize("ending", ["sys.exit(0)", "with traceml.trace_step(model): sys.exit(4)", "raise KeyError"])
def test_the_end_waits_for_nothing(script: Scripts, ending: str) -> None:
    body = INIT + "steps(20)\nprint(time.time())\n" + ending
    ran = script(body)()
    took = time.time() - float(ran.out.splitlines()[0])
    untraced = script("steps(20)\nprint(time.time())\nsys.exit(0)")()
    baseline = time.time() - float(untraced.out.splitlines()[0])
    assert took < baseline + 2.0 + baseline  # two seconds at most, and as much again on a busy machine
