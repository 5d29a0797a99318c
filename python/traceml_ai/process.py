"""Process: what this process is (its script, its rank, its age) and why it ends."""

from __future__ import annotations

import os
import sys
import time

from traceml_ai import _core


def script_path() -> str | None:
    """Return the file that Python was started with; None in a notebook or for ``python -c``."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return path if path and os.path.isfile(path) else None


def program_name() -> str:
    """Return the script's name without its ending."""
    path = script_path()
    if path:
        return os.path.splitext(os.path.basename(path))[0]
    return "notebook" if "ipykernel" in sys.modules else "python"


def number_from_environment(name: str, default: int) -> int:
    """Return what a launcher said (``RANK``, ``WORLD_SIZE``); what is no number counts as not said."""
    try:
        return max(int(os.environ.get(name, "")), 0)
    except ValueError:
        return default


def is_helper() -> bool:
    """Return whether multiprocessing started this process.

    A spawned worker reruns the script's top level, ``init()`` included, and trains nothing.
    """
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def seconds_since_start(pid: int | None = None) -> float | None:
    """Return the age of a process, by default this one, as the kernel counts it."""
    try:
        with open(f"/proc/{pid or 'self'}/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    return round(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 3)


def end_reason() -> str:
    """Return why the interpreter ends, as far as an exit handler can see.

    Not visible is an exit code given outside of a step: the launcher sees that one, and the extension (``farewell.c``)
    after the interpreter's end.
    """
    interactive = hasattr(sys, "ps1") or "IPython" in sys.modules  # there, an old exception says nothing about the end
    uncaught = None if interactive else getattr(sys, "last_type", None)
    if uncaught is not None:
        return "signal:SIGINT" if issubclass(uncaught, KeyboardInterrupt) else "exception"
    return _core.departure() or "finished"
