"""Report: the two files of a run's report, and what stood in their way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from traceml_ai import _core, terminal


def save(run_dir: str | Path, options: dict[str, Any]) -> tuple[str, int]:
    """Analyse the steps of `run_dir` and write its report there.

    Returns
    -------
    failure : str
        Why it could not be written, and how many steps could not either; "" when it was.
    bad_lines : int
        Lines of the step files that could not be read.

    Raises
    ------
    _core.Error
        There is nothing to report on.
    """
    payload, text, bad_lines = _core.read_report(run_dir, **options, **terminal.file_options())
    try:
        _core.write_report(run_dir, payload, text)
    except _core.Error as error:
        causes = json.loads(payload)["losses"]["causes"]
        lost = causes.get("unwritten", {}).get("count", 0)
        return f"{error}" + (f"; {lost} steps could not be written either" if lost else ""), bad_lines
    return "", bad_lines
