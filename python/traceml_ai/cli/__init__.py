"""The command ``traceml``: one module a subcommand.

Exit codes: 2 for wrong usage, with nothing started, 1 for data that cannot be used, else what the subcommand says
(``run``: the script's).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from traceml_ai import _core
from traceml_ai.cli import compare, run, view
from traceml_ai.cli.arguments import UsageError
from traceml_ai.settings import SettingsError, note

COMMANDS = {"run": run.main, "view": view.main, "compare": compare.main}
LATER = ("watch", "inspect", "selftest")
USAGE = """\
usage: traceml run SCRIPT [options] [-- script arguments]
       traceml view PATH
       traceml compare OLD NEW [--output BASE] [--max-step-time-regression-pct PCT]

run      start a training script, and report where the time of a step went
view     show the report of a run again, from its directory or its summary file
compare  say what became of the step between two runs, and whether it is more than noise

traceml COMMAND --help tells the options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else ""
    if command in ("", "-h", "--help"):
        print(USAGE, file=sys.stdout if command else sys.stderr)
        return 0 if command else 2
    if command == "--version":
        print(_core.__version__)
        return 0
    try:
        return _dispatch(command, arguments[1:])
    except (UsageError, SettingsError) as error:
        note(str(error))
        return 2


def _dispatch(command: str, arguments: list[str]) -> int:
    if command in COMMANDS:
        return COMMANDS[command](arguments)
    if command in LATER:
        raise UsageError(f"'traceml {command}' is not in this version; it has: {', '.join(COMMANDS)}")
    if command == "serve":
        raise UsageError("'serve' is not needed: 'traceml run SCRIPT' or 'python SCRIPT' writes the report itself")
    raise UsageError(f"unknown command '{command}'; accepted are {', '.join(COMMANDS)}")
