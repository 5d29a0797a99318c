"""Summary: the report of the run, while it goes on or after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from traceml_ai import session, terminal

PREFIX = "traceml/"
SECTIONS = ("system", "process", "step_time", "step_memory")


def final_summary(
    *,
    timeout_sec: float = 30.0,
    poll_interval_sec: float = 0.1,
    print_text: bool = False,
    rank0_only: bool = True,
) -> dict[str, Any] | None:
    """Return the whole report of the steps completed so far.

    Parameters
    ----------
    timeout_sec : float
        Longest wait for device events that are still pending.
    poll_interval_sec : float
        Without effect: nothing is polled for.
    print_text : bool
        Whether to print the report's text too.
    rank0_only : bool
        Return None on other ranks than 0.

    Returns
    -------
    dict or None
        The payload of ``final_summary.json``; ``meta.running`` is true while the session is open. None on other ranks,
        when tracing is off (a no-op, also where ``traceml-ai`` raised), or before the first step: nothing was measured.

    Raises
    ------
    RuntimeError
        ``init()`` was never called.
    """
    if rank0_only and os.environ.get("RANK", "0") != "0":
        return None
    read = session.read_report(timeout_sec, terminal.report_options() if print_text else terminal.file_options())
    if read is None:
        return None
    payload, text = read
    if print_text:
        terminal.write(text)
    return json.loads(payload)


def summary(
    *,
    timeout_sec: float = 30.0,
    poll_interval_sec: float = 0.1,
    print_text: bool = False,
    rank0_only: bool = True,
) -> dict[str, Any] | None:
    """Return the report as a flat dict of texts and numbers for experiment trackers.

    ``traceml/<metric>`` is what the text shows, in ms (of several ranks the median); without a value it is left out.
    ``traceml/<metric>_status`` is always there and says what the value is worth, or why there is none: ``in_window``,
    ``partial: never_observed``, ``outside_window: pre_step``, ``unavailable: observer_missing``, ...

    Parameters and errors are those of :func:`final_summary`.

    Returns
    -------
    dict or None
        None exactly where :func:`final_summary` is None, so ask before handing it on::

            summary = traceml.summary()
            if summary is not None:
                wandb.log(summary)
    """
    payload = final_summary(
        timeout_sec=timeout_sec, poll_interval_sec=poll_interval_sec, print_text=print_text, rank0_only=rank0_only
    )
    return None if payload is None else dict(_flat(payload))


def _scalars(prefix: str, values: Any, keys: Any = None) -> Iterator[tuple[str, Any]]:
    for key in (values if keys is None else keys) if isinstance(values, dict) else ():
        if isinstance(values.get(key), (str, int, float, bool)):
            yield prefix + key, values[key]


def _metrics(overall: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every metric of a step under its own name: the value that the text shows, and what it is worth."""
    for name, status in (overall.get("status") or {}).items():
        value = overall["median"][name]["value"]
        if value is not None:
            yield PREFIX + name, value
        yield f"{PREFIX}{name}_status", _state(status)


def _state(status: dict[str, Any]) -> str:
    """Return availability or, where that is whole, coverage, with the reason: ``unavailable: observer_missing``."""
    state = status["coverage"] if status["availability"] == "available" else status["availability"]
    return f"{state}: {status['reason']}" if status["reason"] else state


def _flat(payload: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from _scalars(PREFIX, payload, ("schema_version", "duration_s"))
    primary = payload.get("primary_diagnosis")
    yield from _scalars(PREFIX + "primary/", primary, ("kind", "status", "severity", "section"))
    yield from _metrics((payload.get("step_time") or {}).get("global") or {})
    for name in SECTIONS:
        section = payload.get(name) or {}
        prefix = f"{PREFIX}{name}/"
        overall = section.get("global") or {}
        yield from _scalars(prefix, section.get("diagnosis"), ("status", "severity"))
        yield from _scalars(prefix, overall.get("window"), ("diagnosis_clock",))
        yield from _scalars(prefix, overall.get("average"))
