"""The command line: what is refused, in one line, with nothing started."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran

Command = Callable[..., Ran]

USAGE = 2
DATA = 1


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return the file that ``train.py`` makes when it is started."""
    (tmp_path / "train.py").write_text("open('started', 'w').close()\n")
    (tmp_path / "file").write_text("not a directory")
    (tmp_path / "logs" / "taken").mkdir(parents=True)
    (tmp_path / "garbage.json").write_text("{]")
    (tmp_path / "other.json").write_text('{"something": "else"}')
    (tmp_path / "final_summary.txt").write_text("TraceML   a run")
    (tmp_path / "empty").mkdir()
    return tmp_path / "started"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("run", USAGE, "no script given"),
        ("run missing.py", USAGE, "there is no script missing.py"),
        ("run .", USAGE, "is a directory"),
        ("run train.py --mode bogus", USAGE, "accepted are summary, cli, dashboard"),
        ("run train.py --mode cli", USAGE, "not in this version"),
        ("run train.py --mode dashboard", USAGE, "not in this version"),
        ("run train.py --html-report", USAGE, "not in this version"),
        ("run train.py --nproc-per-node 2", USAGE, "not in this version"),
        ("run train.py --nproc-per-node x", USAGE, "whole number"),
        ("run train.py --nnodes 0", USAGE, "whole number"),
        ("run train.py --logs-dir file/logs", USAGE, "cannot write to the logs directory"),
        ("run train.py --logs-dir file", USAGE, "cannot write to the logs directory"),
        ("run train.py --run-name taken", USAGE, "exists already"),
        ("run train.py --run-name a/b", USAGE, "--run-name a/b is not accepted; --run-name is letters, digits"),
        ("run train.py --run-name ..", USAGE, "--run-name .. is not accepted"),
        ("run train.py --run-name " + 300 * "x", USAGE, "--run-name is at most 200 bytes long"),
        ("run train.py --logs-dir=", USAGE, "--logs-dir '' is not accepted"),
        ("run /dev/null", USAGE, "/dev/null is a device"),
        ("run train.py --node-rank 1", USAGE, "--node-rank is not in this version"),
        ("run train.py --master-addr a", USAGE, "--master-addr is not in this version"),
        ("run train.py --master-port 1", USAGE, "--master-port is not in this version"),
        ("run train.py --interval soon", USAGE, "seconds above 0"),
        ("run train.py --trace-max-steps 0", USAGE, "whole number"),
        ("run train.py --summary-window-rows -1", USAGE, "whole number"),
        ("run train.py --lr 3", USAGE, "unknown option '--lr'; the script's own arguments go after -- or --args"),
        ("run train.py --lr=3", USAGE, "unknown option '--lr'; the script's own"),
        ("run --lr 3 train.py", USAGE, "unknown option '--lr'; the script's own"),
        ("run train.py --runname x", USAGE, "unknown option '--runname' (did you mean --run-name?)"),
        ("run --runname x train.py", USAGE, "unknown option '--runname' (did you mean --run-name?)"),
        ("run train.py --run-nam x", USAGE, "unknown option '--run-nam'"),
        ("run train.py --disable", USAGE, "unknown option '--disable'"),
        ("run train.py -v", USAGE, "unknown option '-v'"),
        ("run train.py extra", USAGE, "unknown argument 'extra'"),
        ("run train.py --run-name", USAGE, "expected one argument"),
        ("run accelerate launch train.py", USAGE, "accelerate launch SCRIPT"),
        ("run torchrun train.py", USAGE, "torchrun SCRIPT"),
        ("run python train.py", USAGE, "give the script itself"),
        ("watch train.py", USAGE, "not in this version"),
        ("inspect a", USAGE, "not in this version"),
        ("selftest", USAGE, "not in this version"),
        ("serve", USAGE, "is not needed"),
        ("bogus", USAGE, "unknown command 'bogus'"),
        ("sel", USAGE, "unknown command 'sel'"),
        ("view", USAGE, "required"),
        ("view empty --html", USAGE, "not in this version"),
        ("view empty --bogus", USAGE, "unknown option '--bogus'"),
        ("view empty --htm", USAGE, "unknown option '--htm' (did you mean --html?)"),
        ("view empty other", USAGE, "unknown argument 'other'"),
        ("view missing", DATA, "missing"),
        ("view empty", DATA, "empty"),
        ("view garbage.json", DATA, "garbage.json"),
        ("view other.json", DATA, "other.json"),
        ("view final_summary.txt", DATA, "give a run directory or its final_summary.json"),
    ],
)
def test_one_line_the_exit_code_and_nothing_started(
    command: Command, marker: Path, tmp_path: Path, arguments: str, code: int, says: str
) -> None:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    ran = command(*arguments.split())
    assert ran.code == code, ran.err
    assert says in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""
    assert not marker.exists()
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_newline_in_the_scripts_name_is_no_newline_in_the_runs(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a\nb.py").write_text("import os; print(os.environ['TRACEML_RUN_DIR'])")
    ran = command("run", "a\nb.py")
    assert ran.code == 0
    assert Path(ran.out.strip()).name.startswith("a_b_")


def test_an_empty_path_and_a_name_with_a_newline_are_one_line(command: Command, marker: Path) -> None:
    ran = command("view", "")
    assert (ran.code, ran.err) == (USAGE, "traceml: view: PATH is empty; give a run directory or a summary file\n")
    ran = command("run", "train.py", "--run-name", "a\nb")
    assert (ran.code, ran.err.count("\n")) == (USAGE, 1)
    assert "--run-name 'a\\nb' is not accepted" in ran.err
    assert not marker.exists()


def test_a_bad_variable_or_file_is_refused_too(command: Command, marker: Path, tmp_path: Path) -> None:
    ran = command("run", "train.py", TRACEML_INTERVAL="soon")
    assert (ran.code, ran.err.count("\n")) == (USAGE, 1)
    assert "TRACEML_INTERVAL=soon" in ran.err
    (tmp_path / "traceml.yaml").write_text("mode: bogus\n")
    ran = command("run", "train.py")
    assert (ran.code, ran.err.count("\n")) == (USAGE, 1)
    assert "traceml.yaml" in ran.err
    assert not marker.exists()


def test_the_file_beside_the_script_counts(command: Command, marker: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.py").write_text("import os; print(os.environ['TRACEML_RUN_DIR'])")
    (tmp_path / "folder" / "traceml.yaml").write_text("logs_dir: elsewhere\n")
    ran = command("run", "folder/train.py")
    assert ran.out.startswith(str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("run", "--help"), ("view", "--help")])
def test_help(command: Command, arguments: tuple[str, ...]) -> None:
    ran = command(*arguments)
    assert ran.code == (0 if arguments else USAGE)
    assert "traceml" in (ran.out if arguments else ran.err)


def test_version(command: Command) -> None:
    import traceml_ai

    assert command("--version").out.strip() == traceml_ai.__version__


def test_only_commands_that_there_are_are_offered(command: Command, marker: Path) -> None:
    from traceml_ai import cli

    offered = command("bogus").err.rstrip().partition("accepted are ")[2].split(", ")
    assert offered == list(cli.COMMANDS)
    for name in (*offered, *cli.LATER):
        assert ("not in this version" in command(name).err) == (name in cli.LATER)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "train.py", "--", "--lr", "3", "--", "x"),
        ("run", "train.py", "--args", "--lr", "3", "--", "x"),
        ("run", "--run-name", "r", "train.py", "--", "--lr", "3", "--", "x"),
        ("run", "--", "train.py", "--lr", "3", "--", "x"),
    ],
)
def test_arguments_of_the_script_are_untouched(command: Command, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv)")
    assert command(*arguments).out.strip() == str(["train.py", "--lr", "3", "--", "x"])


def test_options_without_effect_are_accepted_with_one_line(command: Command, marker: Path) -> None:
    ran = command(
        "run",
        "train.py",
        "--aggregator-port",
        "1",
        "--no-history",
        "--enable-logging",
        "--nnodes",
        "1",
    )
    assert ran.code == 0
    assert marker.exists()
    first = ran.err.splitlines()[0]
    for flag in ("--aggregator-port", "--no-history", "--enable-logging"):
        assert flag in first
    assert "without effect" in first


def test_a_script_that_never_heard_of_us_is_told_the_two_lines(command: Command, marker: Path, tmp_path: Path) -> None:
    ran = command("run", "train.py")
    assert ran.code == 0
    assert marker.exists()
    assert ran.err.count("\n") == 1
    assert "traceml.init()" in ran.err
    assert "with traceml.trace_step(model):" in ran.err
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["taken"]


def test_the_script_is_run_as_python_runs_it(command: Command, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.py").write_text(
        "import os, sys; print(__name__, sys.argv, sys.path[0], os.getcwd(), sys.flags.dev_mode)"
    )
    expected = f"__main__ ['folder/train.py'] {tmp_path / 'folder'} {os.path.realpath(tmp_path)} False"
    assert command("run", "folder/train.py").out.strip() == expected
