"""``traceml run``: start a script with tracing, and report."""

from __future__ import annotations

import argparse
import os
from typing import Any

from traceml_ai import launcher
from traceml_ai.cli.arguments import Parser, UsageError, WithoutEffect, split_script_arguments
from traceml_ai.settings import UI_MODES, Settings, SettingsError, note, resolve

# What people put where the script belongs, and what to say instead.
NOT_SCRIPTS = {
    "accelerate": "start it the other way round: accelerate launch SCRIPT, with traceml_ai.init() in the script",
    "torchrun": "start it the other way round: torchrun SCRIPT, with traceml_ai.init() in the script",
    "python": "give the script itself: traceml run SCRIPT",
    "python3": "give the script itself: traceml run SCRIPT",
}


# What is typed for a setting; the others are named by their variable or key.
TYPED = {
    "session_id": "--run-name",
    "logs_dir": "--logs-dir",
    "interval": "--interval",
    "max_steps": "--trace-max-steps",
    "window_steps": "--summary-window-rows",
    "finalize_timeout_sec": "--finalize-timeout-sec",
}


def _parser() -> Parser:
    parser = Parser(
        prog="traceml run",
        description="Start SCRIPT with tracing; its exit code is this command's (128 + n for signal n).",
        epilog="Everything after -- or --args goes to the script.",
    )
    add = parser.add_argument
    add("script", metavar="SCRIPT", nargs="?", help="the training script")
    add("--mode", metavar="MODE", help="summary (default): the report at the end; cli, dashboard: not in this version")
    add("--run-name", "--session-id", metavar="NAME", help="name of the run's directory (default: script and time)")
    add("--logs-dir", metavar="DIR", help="where run directories are made (default: ./logs)")
    add("--interval", metavar="S", help="refresh of the live views, in seconds")
    add("--trace-max-steps", metavar="N", help="record the first N steps alone")
    add("--summary-window-rows", metavar="N", help="the report is about the latest N steps (default: 10000)")
    add("--finalize-timeout-sec", metavar="S", help="accepted for compatibility; the report needs no waiting")
    add("--disable-traceml", "--disable_traceml", action="store_true", help="run the script without any tracing")
    add("--nproc-per-node", metavar="N", default="1", help="processes on this node; above 1 not in this version")
    add("--nnodes", metavar="N", default="1", help="nodes; above 1 not in this version")
    add("--html-report", action="store_true", help="not in this version")
    for flag in ("--no-history", "--enable-logging", "--no-dashboard-auto-open", "--capture-stderr"):
        add(flag, action=WithoutEffect, nargs=0, dest="ignored", default=(), help=argparse.SUPPRESS)
    for flag in ("aggregator-port", "aggregator-host", "aggregator-bind-host", "dashboard-port"):
        add(f"--{flag}", action=WithoutEffect, dest="ignored", default=(), help=argparse.SUPPRESS)
    for flag in ("node-rank", "master-addr", "master-port"):
        add(f"--{flag}", help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str]) -> int:
    """Run ``traceml run`` and return its exit code."""
    ours, rest = split_script_arguments(arguments)
    after_dashes = len(ours) < len(arguments) and arguments[len(ours)] == "--"
    parser = _parser()
    options, unknown = parser.parse_known_args(ours)
    if options.script is None and after_dashes and rest:
        options.script = rest.pop(0)
    if options.script in NOT_SCRIPTS and not os.path.exists(options.script):
        raise UsageError(f"run: '{options.script}' is not a script; {NOT_SCRIPTS[options.script]}")
    parser.refuse(unknown, "the script's own arguments go after -- or --args")
    script = _script(options.script)
    _refuse_what_comes_later(options)
    settings = _settings(options, script)
    if options.ignored:
        note(f"{', '.join(dict.fromkeys(options.ignored))}: without effect, everything happens in the script's process")
    return launcher.run_script(script, rest, settings, _environment(options))


def _script(path: str | None) -> str:
    if not path:
        raise UsageError("run: no script given: traceml run SCRIPT [options] [-- script arguments]")
    if os.path.isfile(path):
        return path
    if os.path.isdir(path):
        raise UsageError(f"run: {path} is a directory; give the script itself")
    if os.path.exists(path):
        raise UsageError(f"run: {path} is a device, a pipe or a socket; give the script itself")
    raise UsageError(f"run: there is no script {path}")


def _refuse_what_comes_later(options: argparse.Namespace) -> None:
    for name in ("nproc_per_node", "nnodes"):
        value = getattr(options, name)
        flag = "--" + name.replace("_", "-")
        if not value.isdecimal() or int(value) < 1:
            raise UsageError(f"run: {flag} {value} is not accepted; it is a whole number above 0")
        if int(value) > 1:
            raise UsageError(f"run: {flag} above 1 is not in this version; start the ranks by torchrun yourself")
    for name in ("node_rank", "master_addr", "master_port"):
        if getattr(options, name) is not None:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"run: {flag} is not in this version; start the ranks by torchrun yourself")
    if options.html_report:
        raise UsageError("run: --html-report is not in this version")


def _settings(options: argparse.Namespace, script: str) -> Settings:
    if options.mode is not None and options.mode not in UI_MODES:
        raise UsageError(f"run: unknown mode '{options.mode}'; accepted are {', '.join(UI_MODES)}")
    try:
        settings = resolve(_given(options), script=script, strict=True, typed=TYPED)
    except SettingsError as error:
        raise UsageError(f"run: {error}") from None
    if settings.ui_mode != "summary":
        raise UsageError(f"run: mode '{settings.ui_mode}' is not in this version; it has: summary")
    return settings


def _given(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "ui_mode": options.mode,
        "session_id": options.run_name,
        "logs_dir": options.logs_dir,
        "interval": options.interval,
        "max_steps": options.trace_max_steps,
        "window_steps": options.summary_window_rows,
        "finalize_timeout_sec": options.finalize_timeout_sec,
        "disabled": True if options.disable_traceml else None,
    }


def _environment(options: argparse.Namespace) -> dict[str, str]:
    """Options that the script's ``init()`` has to know."""
    given = {
        "TRACEML_INTERVAL": options.interval,
        "TRACEML_TRACE_MAX_STEPS": options.trace_max_steps,
        "TRACEML_SUMMARY_WINDOW_ROWS": options.summary_window_rows,
    }
    return {name: value for name, value in given.items() if value is not None}
