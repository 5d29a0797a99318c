"""``traceml compare``: what became of the step between two runs.

Exit codes: 0, 1 for data that cannot be used, 2 for wrong usage; with a limit also 4 for slower than it, and 3 where
that is not known.
"""

from __future__ import annotations

import math

from traceml_ai import _core, terminal
from traceml_ai.cli.arguments import Parser, UsageError
from traceml_ai.settings import note

EXIT_OF_LIMIT = {"none": 0, "within": 0, "inconclusive": 3, "slower": 4}
EXTENSIONS = (".json", ".txt")


def _parser() -> Parser:
    parser = Parser(
        prog="traceml compare",
        description="Compare two runs: what became of the step and its phases, whether it is more than the noise of "
        "their steps, and what changed besides. OLD and NEW are run directories or summary files, ours or those of "
        "traceml-ai (schema 1.4 to 1.7).",
        epilog="exit codes: 0; 1 a file cannot be used; 2 wrong usage; with --max-step-time-regression-pct also 3 not "
        "known whether slower, 4 slower",
    )
    add = parser.add_argument
    add("old", metavar="OLD", help="the run before")
    add("new", metavar="NEW", help="the run after")
    add("--output", metavar="BASE", help="write BASE.json and BASE.txt too")
    add("--max-step-time-regression-pct", metavar="PCT", dest="limit", help="exit 4 when the step is slower by more")
    return parser


def main(arguments: list[str]) -> int:
    """Run ``traceml compare`` and return its exit code."""
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    parser.refuse(unknown, "accepted are OLD, NEW, --output and --max-step-time-regression-pct")
    limit = _limit(options.limit)
    base = _base(options.output)
    try:
        payload, text, _, outcome = _core.compare(
            options.old, options.new, max_step_time_regression_pct=limit, **terminal.report_options()
        )
    except _core.Error as error:
        note(f"compare: {error}")
        return 1
    if base is not None:
        _write(base, payload, text)
    terminal.write(text)
    return EXIT_OF_LIMIT[outcome]


def _limit(given: str | None) -> float:
    """Return the limit in percent, NaN without one."""
    if given is None:
        return math.nan
    try:
        limit = float(given.removesuffix("%"))
    except ValueError:
        limit = math.nan
    if not (math.isfinite(limit) and limit >= 0):
        raise UsageError(
            f"compare: --max-step-time-regression-pct {given} is not accepted; it is a percentage of 0 or more, as in 5"
        )
    return limit


def _base(given: str | None) -> str | None:
    """Return the name of both files without its extension, which may have been given."""
    if given is None:
        return None
    for extension in EXTENSIONS:
        given = given.removesuffix(extension)
    if not given or given.endswith("/"):
        raise UsageError("compare: --output needs the files' name without its extension, as in out/before-after")
    return given


def _write(base: str, payload: str, text: str) -> None:
    try:
        _core.write_comparison(base, payload, text)
    except _core.Error as error:
        raise UsageError(f"compare: {error}; give --output a name in a directory that can be written") from None
