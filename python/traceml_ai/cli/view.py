"""``traceml view``: the report of a run again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from traceml_ai import _core, terminal
from traceml_ai.cli.arguments import Parser, UsageError
from traceml_ai.settings import SettingsError, note, resolve


def _parser() -> Parser:
    parser = Parser(
        prog="traceml view",
        description="Show the report of a run, rebuilt from its step lines; a summary file is shown as it is.",
    )
    parser.add_argument("path", metavar="PATH", help="a run directory or a summary file")
    parser.add_argument("--html", nargs="?", const="", metavar="OUT", help="not in this version")
    return parser


def main(arguments: list[str]) -> int:
    """Run ``traceml view`` and return its exit code."""
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    parser.refuse(unknown, "accepted is PATH, a run directory or a summary file")
    if options.html is not None:
        raise UsageError("view: --html is not in this version")
    if not options.path:
        raise UsageError("view: PATH is empty; give a run directory or a summary file")
    path = Path(options.path)
    try:
        window = {"window_steps": resolve({}, strict=True).window_steps}
        payload, text, bad_lines = _core.read_report(path, **window, **terminal.report_options())
    except SettingsError as error:
        raise UsageError(f"view: {error}") from None
    except _core.Error as error:
        note(f"view: {error}")
        return 1
    if bad_lines:
        note(f"view: {bad_lines} line{'s' if bad_lines > 1 else ''} of the step files could not be read; the rest was")
    if path.is_dir() and not json.loads(payload)["meta"].get("running") and _summary_is_missing(path):
        _write(path, window)
    terminal.write(text)
    return 0


def _summary_is_missing(run_dir: Path) -> bool:
    """Whether there is no summary, or one from before the last step: the run was killed."""
    try:
        written = os.stat(run_dir / "final_summary.json").st_mtime_ns
    except OSError:
        return True
    return any(file.stat().st_mtime_ns > written for file in run_dir.glob("steps-rank*.jsonl"))


def _write(run_dir: Path, window: dict[str, int]) -> None:
    try:
        payload, text, _ = _core.read_report(run_dir, **window, **terminal.file_options())
        _core.write_report(run_dir, payload, text)
    except _core.Error as error:
        note(f"view: the summary was not written: {error}")
