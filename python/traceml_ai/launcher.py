"""Launcher: starts a script in a run directory of its own, waits, and finishes the report whatever became of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from traceml_ai import _core, report, terminal
from traceml_ai.settings import RUN_DIR_ENV, Settings, SettingsError, note

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TAIL_BYTES = 1 << 16  # the end line of a step file is far shorter
HOW_TO_TRACE = (
    "add `import traceml_ai as traceml; traceml.init()` before the loop and `with traceml.trace_step(model):` "
    "around the step"
)


def run_script(script: str, arguments: list[str], settings: Settings, extra_environment: dict[str, str]) -> int:
    """Run the script and return its exit code, 128 + n for signal n.

    Raises
    ------
    SettingsError
        The run directory exists or cannot be made; nothing was started.
    """
    environment = {**os.environ, **extra_environment}
    environment.pop(RUN_DIR_ENV, None)
    if settings.disabled:
        environment["TRACEML_DISABLED"] = "1"
        return _exit_code(_run(script, arguments, environment))
    run_dir = make_run_dir(script, settings)
    environment[RUN_DIR_ENV] = str(run_dir)
    status = _run(script, arguments, environment)
    try:
        finish(run_dir, status, settings)
    except Exception as error:  # the script's exit code counts, whatever happens to the report
        note(f"the report could not be finished: {error}")
    return _exit_code(status)


# ---- the run directory ---------------------------------------------------------------------------------------------


def make_run_dir(script: str, settings: Settings) -> Path:
    """Make ``LOGS_DIR/RUN_NAME``; a name that was asked for and is taken is refused, never written into."""
    logs_dir = Path(settings.logs_dir).absolute()
    try:
        logs_dir.mkdir(parents=True, exist_ok=True)
        return _make_free(logs_dir, script) if settings.session_id is None else _make(logs_dir / settings.session_id)
    except OSError as error:
        raise SettingsError(f"run: cannot write to the logs directory {logs_dir}: {error.strerror}") from None


def _make(run_dir: Path) -> Path:
    try:
        run_dir.mkdir()
    except FileExistsError:
        raise SettingsError(f"run: {run_dir} exists already; choose another --run-name or remove it") from None
    return run_dir


def _make_free(logs_dir: Path, script: str) -> Path:
    stem = re.sub(r"[\x00-\x1f\x7f]", "_", os.fsdecode(os.fsencode(Path(script).stem)[:127]))  # as the core's default
    name = f"{stem}_{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while True:
        run_dir = logs_dir / (name if number == 1 else f"{name}-{number}")
        try:
            run_dir.mkdir()
            return run_dir
        except FileExistsError:
            number += 1


# ---- the child -----------------------------------------------------------------------------------------------------


def _run(script: str, arguments: list[str], environment: dict[str, str]) -> int:
    """Run the script as a child and return its wait status.

    Signals are taken by sigwaitinfo(), which tells who sent them: what the terminal sends (Ctrl-C) reaches the child by
    itself, what a process sends to us alone has to be passed on.
    """
    waited = (*FORWARDED, signal.SIGCHLD)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        interpreter = sys.executable or "python3"
        child = os.posix_spawnp(interpreter, [interpreter, script, *arguments], environment, setsigmask=before)
        while True:
            received = signal.sigwaitinfo(waited)
            if received.si_signo == signal.SIGCHLD:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid == child:
                    return status
            elif received.si_code <= 0:  # sent by a process; the kernel's own are above
                os.kill(child, received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


# ---- the report ----------------------------------------------------------------------------------------------------


def finish(run_dir: Path, status: int, settings: Settings) -> None:
    """Write the report of a run that ended with this wait status, and print it."""
    files = sorted(run_dir.glob("steps-rank*.jsonl"))
    reason = end_reason(status, recorded_end(files[0]) if files else None)
    if not files:
        _say_no_step(run_dir, reason)
        return
    not_completed = ""
    try:
        _core.run_ended(run_dir, reason)
    except _core.Error as error:
        not_completed = f"{run_dir / 'manifest.json'}: not completed ({error})"
    options: dict[str, Any] = {"end_reason": reason, "window_steps": settings.window_steps}
    failure, bad_lines = report.save(run_dir, options)
    if failure or not_completed:
        note(failure or not_completed)
    if bad_lines:
        note(f"{bad_lines} line{'s' if bad_lines > 1 else ''} of the step files could not be read; the rest was")
    terminal.write(_core.read_report(run_dir, **options, **terminal.report_options(), unsaved=bool(failure))[1])


def end_reason(status: int, recorded: str | None) -> str:
    """Return how the run ended: a signal as we saw it, else the reason that the files give, unless it is contradicted.

    The script itself knows more ("exception") than its exit code (1) tells, but cannot know of an exit code other than
    0 after its exit handlers ran.
    """
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"signal:{signal.Signals(-code).name}"
    if code == 0:
        return recorded or "exit:0"
    return recorded if recorded not in (None, "finished") else f"exit:{code}"


def recorded_end(step_file: Path) -> str | None:
    """Return the reason in the end line of a step file; None when it was not closed properly."""
    with open(step_file, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - TAIL_BYTES, 0))
        lines = file.read().splitlines()
    try:
        reason = json.loads(lines[-1])["end"]["reason"]
    except (IndexError, ValueError, KeyError, TypeError):
        return None
    return reason if isinstance(reason, str) else None


def _say_no_step(run_dir: Path, reason: str) -> None:
    if not run_dir.is_dir():
        note(f"{run_dir} is gone, and with it the steps that were recorded in it")
        return
    with contextlib.suppress(OSError):
        run_dir.rmdir()  # made by us and still empty
    if reason in ("finished", "exit:0"):
        note(f"no step was recorded; if the script is not traced yet, {HOW_TO_TRACE}")
    else:
        note(f"no step was recorded before the script ended ({reason})")
