"""Terminal: what the output can show, and printing the report on it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, TextIO

MIN_COLUMNS = 40
FILE_COLUMNS = 100


def report_options(stream: TextIO | None = None) -> dict[str, Any]:
    """Return width, ASCII and colour for ``_core.read_report`` as `stream` (stdout by default) can show them."""
    stream = sys.stdout if stream is None else stream
    tty = _is_terminal(stream)
    columns = shutil.get_terminal_size((FILE_COLUMNS, 24)).columns if tty else FILE_COLUMNS
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").replace("_", "")
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return {
        "columns": max(columns, MIN_COLUMNS),
        "ascii": not encoding.startswith("utf"),
        "color": tty and not dumb and not os.environ.get("NO_COLOR"),
    }


def file_options() -> dict[str, Any]:
    """Return the options for a text that is kept in a file."""
    return {"columns": FILE_COLUMNS, "ascii": False, "color": False}


def descriptor() -> int:
    """Return the process's own stdout, -1 if the user put another stream in its place."""
    try:
        return sys.stdout.fileno() if sys.stdout is not None and sys.stdout is sys.__stdout__ else -1
    except (OSError, ValueError):
        return -1


def write(text: str) -> None:
    """Print `text` on stdout; a reader that is gone is no error.

    Where stdout is the process's own, the text goes past Python's buffer: were it left in there with nobody to read it,
    the interpreter's last flush would fail and turn the script's exit code into 120.
    """
    stream = sys.stdout
    if stream is None:
        return
    try:
        stream.flush()
        if stream is not sys.__stdout__:
            stream.write(text)
            stream.flush()
            return
        data = memoryview(text.encode(stream.encoding or "utf-8", "replace"))
        while data:
            data = data[os.write(stream.fileno(), data) :]
    except (OSError, ValueError):
        pass


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError, OSError):
        return False
