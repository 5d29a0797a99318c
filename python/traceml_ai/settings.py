"""Settings: an argument, else a ``TRACEML_*`` variable, else ``traceml.yaml`` beside the script, else a default."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG_FILE = "traceml.yaml"
UI_MODES = ("summary", "cli", "dashboard")
LONGEST_NAME = 200  # of a run; leaves room for a suffix
LONGEST_SHOWN = 60
PATCHES = ("patch_dataloader", "patch_forward", "patch_backward", "patch_h2d")

# Set by `traceml run` for the script that it starts.
RUN_DIR_ENV = "TRACEML_RUN_DIR"


class SettingsError(ValueError):
    """A setting that is not usable; the text is one line that says what is accepted."""


def _text(value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError("a text that is not empty")
    return os.fspath(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false")


def _seconds(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0.0 < number < 1e9:
        raise ValueError("a number of seconds above 0")
    return number


def _count(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if isinstance(value, (bool, float)) or not 0 < number < 2**63:
        raise ValueError("a whole number above 0")
    return number


def _ui_mode(value: Any) -> str:
    if value not in UI_MODES:
        raise ValueError("one of " + ", ".join(UI_MODES))
    return str(value)


def _name(value: Any) -> str:
    text = _text(value)
    if len(os.fsencode(text)) > LONGEST_NAME:
        raise ValueError(f"at most {LONGEST_NAME} bytes long")
    if text in (".", "..") or not all(c.isalnum() or c in "_.-" for c in text):
        raise ValueError("letters, digits, '_', '.' and '-', and not '.' or '..'")
    return text


@dataclass(frozen=True)
class Option:
    """One setting: its names and how it is read.

    Attributes
    ----------
    name : str
        Field of :class:`Settings` and argument of ``init()``.
    env, yaml : str
        Environment variable and key of ``traceml.yaml``; empty: none.
    parse : callable
        Checks a value of any source; raises ``ValueError`` with what is accepted.
    default : object
        Used when no source has it.
    """

    name: str
    env: str
    yaml: str
    parse: Callable[[Any], Any]
    default: Any


OPTIONS = (
    Option("disabled", "TRACEML_DISABLED", "", _boolean, False),
    Option("ui_mode", "TRACEML_UI_MODE", "mode", _ui_mode, "summary"),
    Option("interval", "TRACEML_INTERVAL", "interval", _seconds, 2.0),
    Option("logs_dir", "TRACEML_LOGS_DIR", "logs_dir", _text, "./logs"),
    Option("session_id", "TRACEML_SESSION_ID", "", _name, None),
    Option("max_steps", "TRACEML_TRACE_MAX_STEPS", "trace_max_steps", _count, None),
    Option("window_steps", "TRACEML_SUMMARY_WINDOW_ROWS", "summary_window_rows", _count, 10000),
    Option("finalize_timeout_sec", "TRACEML_FINALIZE_TIMEOUT_SEC", "finalize_timeout_sec", _seconds, 300.0),
    # Accepted without effect: this package writes its files itself and keeps no other logs.
    Option("enable_logging", "TRACEML_ENABLE_LOGGING", "enable_logging", _boolean, False),
)


@dataclass(frozen=True)
class Settings:
    """Every setting of a run, resolved."""

    disabled: bool
    ui_mode: str
    interval: float
    logs_dir: str
    session_id: str | None
    max_steps: int | None
    window_steps: int
    finalize_timeout_sec: float
    enable_logging: bool


def note(line: str) -> None:
    """Say one line on stderr. Not a Python warning: under ``-W error`` that would stop the training."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"traceml: {line}", file=sys.stderr, flush=True)


def resolve(
    arguments: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    script: str | None = None,
    strict: bool = False,
    typed: Mapping[str, str] | None = None,
) -> Settings:
    """Resolve all settings.

    Parameters
    ----------
    arguments : mapping
        Values given in code or on the command line by option name; None counts as not given.
    environ : mapping, optional
        Environment variables; the process's by default.
    script : str, optional
        The script whose folder may hold ``traceml.yaml``.
    strict : bool
        Whether a bad variable or file is an error, as on the command line. In a script it is one line on stderr and
        the next source counts: training does not stop for it.
    typed : mapping, optional
        What the user typed for an argument where that is not its name: ``--run-name`` for ``session_id``.

    Raises
    ------
    SettingsError
        A bad argument; with `strict`, anything bad.
    """
    environ = os.environ if environ is None else environ
    file, values = _config(script, strict)
    resolved = {}
    for option in OPTIONS:
        flag = (typed or {}).get(option.name)
        sources = (
            (f"{flag} " if flag else f"{option.name}=", arguments.get(option.name), True),
            (f"{option.env}=", environ.get(option.env) or None, strict),
            (f"{file}: {option.yaml}: ", values.get(option.yaml), strict),
        )
        resolved[option.name] = _first(option, sources, flag or option.name)
    return Settings(**resolved)


def _shown(value: Any) -> str:
    """Return it as it can stand in a line: an empty one and control characters are seen, a long one is cut."""
    text = str(value)
    text = text if text and text.isprintable() else repr(text)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def _first(option: Option, sources: tuple[tuple[str, Any, bool], ...], name: str) -> Any:
    for where, value, fatal in sources:
        if value is None:
            continue
        try:
            return option.parse(value)
        except ValueError as accepted:
            line = f"{where}{_shown(value)} is not accepted; {name} is {accepted}"
            if fatal:
                raise SettingsError(line) from None
            note(line)
    return option.default


def _config(script: str | None, strict: bool) -> tuple[str, dict[str, str]]:
    if not script:
        return "", {}
    file = Path(script).resolve().parent / CONFIG_FILE
    try:
        return str(file), read_config(file)
    except SettingsError as error:
        if strict:
            raise
        note(f"{error}; the file is ignored")
        return str(file), {}


def read_config(file: Path) -> dict[str, str]:
    """Read ``traceml.yaml``: lines ``key: value``, comments, nothing nested; an absent file is empty.

    A reader of its own, because the package has no dependencies and the file needs no more than this.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read ({error.__class__.__name__})") from None
    known = {option.yaml for option in OPTIONS if option.yaml}
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        content = line.split(" #")[0].strip()
        if not content or content.startswith(("#", "---")):
            continue
        key, colon, value = content.partition(":")
        if not colon or line[:1].isspace() or content.startswith("-"):
            raise SettingsError(f"{file}:{number}: expected 'key: value'")
        key, value = key.strip(), value.strip().strip("'\"")
        if key not in known:
            note(f"{file}:{number}: unknown key '{key}' is ignored; known are {', '.join(sorted(known))}")
        elif value not in ("", "~", "null"):
            values[key] = value
    return values
