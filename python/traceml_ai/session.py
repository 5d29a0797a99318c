"""Session: one traced run of this process, from ``init()`` to ``shutdown()`` or the interpreter's end."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import json
import os
import sys
import threading
from typing import Any

from traceml_ai import _core, job, process, report, terminal
from traceml_ai.init_config import DISABLED, TraceMLInitConfig, from_arguments
from traceml_ai.observed import Observed
from traceml_ai.settings import PATCHES, RUN_DIR_ENV, Settings, note, resolve

HOOKS = {
    "patch_dataloader": "traceml_ai.hooks.dataloader",
    "patch_forward": "traceml_ai.hooks.forward",
    "patch_backward": "traceml_ai.hooks.backward",
    "optimizer": "traceml_ai.hooks.optimizer",  # no argument of its own, as the next: with mode="auto"
    "scaler": "traceml_ai.hooks.scaler",  # no phase of its own: it says why one of the optimizer is missing
}
SETTLE_MS = 100
GONE = "the directory is gone, and with it the steps that were recorded in it"


class _Run:
    """A session that was opened; it stays known after its end, for its report."""

    def __init__(self, config: TraceMLInitConfig, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.pid = os.getpid()
        self.rank = process.number_from_environment("RANK", 0)
        self.launched = bool(os.environ.get(RUN_DIR_ENV))
        self.parent = os.getppid()
        self.observed = Observed()
        self.hooks: list[Any] = []
        self.run_dir = ""
        self.shared = False  # the run directory is that of all ranks
        self.open = False

    def is_ours(self) -> bool:
        """Whether it is open here; a forked child has no session, whatever its copy of this module says."""
        return self.open and self.pid == os.getpid()


_lock = threading.RLock()  # init, shutdown and reports, beside each other; never taken while training runs
_run: _Run | None = None
_off = False  # init() was called and nothing is traced: disabled, or it could not be
_registered = False


# ---- init ----------------------------------------------------------------------------------------------------------


def init(
    *,
    mode: str = "auto",
    patch_dataloader: bool | None = None,
    patch_forward: bool | None = None,
    patch_backward: bool | None = None,
    patch_h2d: bool | None = None,
    disabled: bool | None = None,
    ui_mode: str | None = None,
    interval: float | None = None,
    logs_dir: str | None = None,
    enable_logging: bool | None = None,
    session_id: str | None = None,
    aggregator_host: str | None = None,
    aggregator_port: int | None = None,
    connect_timeout_sec: float = 10.0,
    connect_retry_interval_sec: float = 0.25,
    on_missing_aggregator: str | None = None,
) -> TraceMLInitConfig:
    """Start tracing in this process.

    Parameters
    ----------
    mode : str
        ``auto``: all hooks; ``selective`` (alias ``custom``): those given as ``patch_*=True``; ``manual``: none.
    patch_dataloader, patch_forward, patch_backward, patch_h2d : bool, optional
        With ``mode="selective"`` only. In this version copies are not observed.
    disabled : bool, optional
        Do nothing at all; also ``TRACEML_DISABLED=1``.
    ui_mode, interval : str, float, optional
        Live view and its refresh in seconds; this version has ``summary`` alone, which needs neither.
    logs_dir : str, optional
        Where run directories are made; default ``./logs``. Under ``traceml run`` the launcher's counts.
    session_id : str, optional
        Name of the run's directory; default ``<script>_<time>``. Under ``traceml run`` the launcher's counts. The ranks
        of a job share it; without it they take the job's name from torchrun or Slurm.
    enable_logging, aggregator_host, aggregator_port, connect_timeout_sec, connect_retry_interval_sec, \
on_missing_aggregator : optional
        Without effect: everything happens in this process. Accepted so that scripts written for them run.

    Returns
    -------
    TraceMLInitConfig
        What is switched on; `disabled` is true when nothing is, also when the run directory could not be made: that is
        one line on stderr, and the training goes on untraced.

    Raises
    ------
    ValueError
        An argument that is not accepted, or a contradiction; the text says which.
    RuntimeError
        A second call with other settings; the text names both. The same settings again are a no-op.
    ImportError
        PyTorch is not installed.
    """
    arguments = {
        "disabled": disabled,
        "ui_mode": ui_mode,
        "interval": interval,
        "logs_dir": logs_dir,
        "enable_logging": enable_logging,
        "session_id": session_id,
    }
    patches = dict(zip(PATCHES, (patch_dataloader, patch_forward, patch_backward, patch_h2d), strict=True))
    settings = resolve(arguments, script=process.script_path())
    config = DISABLED if settings.disabled else from_arguments(mode, patches)
    with _lock:
        if _run is not None and _run.is_ours():
            return _repeat(_run, config, arguments)
        if config.disabled or _off:
            return _switch_off()
        if importlib.util.find_spec("torch") is None:
            raise ImportError("traceml_ai.init() needs PyTorch, which is not installed: pip install torch")
        return _start(config, settings)


def start(**arguments: Any) -> TraceMLInitConfig:
    """Do what :func:`init` does; the older name."""
    return init(**arguments)


def _repeat(run: _Run, config: TraceMLInitConfig, arguments: dict[str, Any]) -> TraceMLInitConfig:
    """Answer a second ``init``: what it does not mention it does not change; under a launcher paths are not its own."""
    launcher_owns = ("logs_dir", "session_id") if run.launched else ()
    if not run.config.same_effective_configuration(config):
        raise RuntimeError(f"init() was called before with {run.config}, now with {config}: call shutdown() first")
    for name, value in arguments.items():
        before = getattr(run.settings, name)
        if value is not None and name not in launcher_owns and value != before:
            raise RuntimeError(
                f"init() was called before with {name}={before!r}, now with {name}={value!r}: call shutdown() first"
            )
    return run.config


def _switch_off() -> TraceMLInitConfig:
    global _off
    _off = True
    return DISABLED


def _start(config: TraceMLInitConfig, settings: Settings) -> TraceMLInitConfig:
    """Open the session and put the hooks in place. Whatever goes wrong here is ours: one line, and no tracing."""
    global _run
    run = _Run(config, settings)
    costs = _hook_costs()
    try:
        _open(run)
    except Exception as error:
        note(f"{error}; the training goes on untraced")
        return _switch_off()
    _run = run
    _register()
    _install(run)
    for phase, cost_ns in costs.items():
        _core.set_hook_cost(phase, cost_ns)
    return config


def _hook_costs() -> dict[int, int]:
    """Measure before the session opens: a trial step must not be counted as one."""
    try:
        from traceml_ai.hooks import cost

        return cost.measure()
    except Exception:  # a PyTorch that lacks something: _install() says which hook does not fit
        return {}


def _open(run: _Run) -> None:
    """Open the core's session in the launcher's directory, else in one of our own with the next free name."""
    settings = run.settings
    options: dict[str, Any] = {
        "program": process.program_name(),
        "environment": run.observed.environment_json(),
        "rank": run.rank,
        "local_rank": process.number_from_environment("LOCAL_RANK", 0),
        "world_size": job.world_size(),
        "max_steps": settings.max_steps or 0,
        "armed": 1 << _core.PHASE_STEP,  # hooks arm theirs; the user's own spans count from the first one on
    }
    if run.launched:
        logs_dir, name = os.path.split(os.environ[RUN_DIR_ENV])
        _core.open(logs_dir=logs_dir, run_name=name, adopt_run_dir=True, **options)
    elif job.world_size() > 1 and (name := settings.session_id or job.shared_name(options["program"])):
        _open_shared(run, name, options)
    else:
        _core.open(logs_dir=settings.logs_dir, run_name=settings.session_id, **options)
    run.run_dir = _core.run_dir()
    _note_other_name(run)
    run.open = True


def _open_shared(run: _Run, name: str, options: dict[str, Any]) -> None:
    """Open it in the directory that the other ranks come to by themselves; the first that has a step makes it."""
    logs_dir = run.settings.logs_dir
    candidate = next(job.free_names(logs_dir, name, run.rank))
    _core.open(logs_dir=logs_dir, run_name=candidate, adopt_run_dir=True, **options)
    run.shared = True


def _note_other_name(run: _Run) -> None:
    """Say so when the name that was asked for is taken, once for all ranks."""
    asked, name = run.settings.session_id, os.path.basename(run.run_dir)
    if asked is not None and name != asked and not run.launched and run.rank == 0:
        note(f"the run '{asked}' exists already in {run.settings.logs_dir}; this one is '{name}'")


def _install(run: _Run) -> None:
    """Install the hooks of the mode; one that fails leaves its phase unarmed, and the others work."""
    import torch

    from traceml_ai.hooks import device, forward, reentry

    def on_model(model: Any) -> None:
        forward.attach(model)
        run.observed.on_model(model)

    _core.set_callbacks(
        on_model=on_model,
        find_parameter=device.find_parameter,
        on_iterator=run.observed.on_iterator,
        is_running=reentry.is_running,
        raw_stream=device.raw_stream(),
        is_grad_enabled=torch.is_grad_enabled,
    )
    for name, module_name in HOOKS.items():
        if not getattr(run.config, name, run.config.mode == "auto"):
            continue
        try:
            module = importlib.import_module(module_name)
            module.install()
        except Exception as error:
            note(f"{name}: the hook does not fit this PyTorch ({error.__class__.__name__}: {error}); not timed")
            continue
        run.hooks.append(module)
        if hasattr(module, "PHASE"):
            _core.set_armed(module.PHASE, True)
    run.observed.publish()


def _register() -> None:
    global _registered
    if not _registered:
        _registered = True
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_core.forget)


# ---- the end -------------------------------------------------------------------------------------------------------


def shutdown() -> None:
    """Stop tracing: remove every hook, write the report, print it (under ``traceml run`` the launcher does both).

    Without a session it does nothing; afterwards :func:`init` may be called again, for a run of its own.
    """
    global _off
    with _lock:
        _off = False
        if _run is not None and _run.is_ours():
            _finish(_run, "finished")


def _at_exit() -> None:
    try:
        with _lock:
            if _run is not None and _run.is_ours():
                _finish(_run, process.end_reason(), ends=True)
    except Exception as error:
        note(f"the report could not be finished: {error}")


def _finish(run: _Run, reason: str, ends: bool = False) -> None:
    run.open = False
    for module in reversed(run.hooks):
        module.remove()
    steps = _core.steps_completed()
    with contextlib.suppress(_core.Error):
        _core.flush(SETTLE_MS)
    run.run_dir = _core.run_dir()  # another run may have taken the name before our first step was written
    _leave_the_launcher(run)
    run.observed.publish()
    failure = ""
    try:
        _core.close(reason, json.dumps(_run_section(run)))
    except _core.Error as error:
        failure = str(error)
    if run.launched:
        failure = ""  # the launcher will say the same
    elif run.rank == 0:
        failure = _report(run, steps, reason, ends) or failure
    if failure:
        note(failure if run.run_dir in failure else f"{run.run_dir}: {failure}")


def _leave_the_launcher(run: _Run) -> None:
    """Say that the launcher's directory belongs to others: a process that recorded there, or our own session before.

    The launcher reports what is in its directory alone, so the report of this session is ours. So it is when the
    launcher was killed: our parent is another then.
    """
    if os.getppid() != run.parent:
        run.launched = False
    owned = os.environ.get(RUN_DIR_ENV, "")
    if run.launched and os.path.realpath(run.run_dir) != os.path.realpath(owned):
        run.launched = False
        note(f"{owned} has the steps of another session of rank {run.rank}; those of this one are in {run.run_dir}")


def _run_section(run: _Run) -> dict[str, Any]:
    section: dict[str, Any] = {"process_s": process.seconds_since_start()}
    if run.observed.epochs_begun():
        section["epochs_begun"] = run.observed.epochs_begun()
        section["epochs_completed"] = run.observed.epochs_completed()
    return section


def _report(run: _Run, steps: int, reason: str, ends: bool) -> str:
    """Write and print the report of a plain ``python`` run; at the interpreter's end it is printed after that.

    Return what went wrong on the way, "" for nothing.
    """
    if not os.path.isdir(run.run_dir):
        if steps == 0 and reason == "finished" and not process.is_helper():
            _note_no_step(ends)
        return GONE if steps > 0 else ""
    if run.shared and reason == "finished":
        job.wait_for_ranks(run.run_dir, job.world_size())
    try:
        options: dict[str, Any] = {"window_steps": run.settings.window_steps}
        failure = report.save(run.run_dir, options)[0]
        options |= terminal.report_options()
        text = _core.read_report(run.run_dir, **options, unsaved=bool(failure))[1]
        if failure or not (ends and reason == "finished" and _print_at_exit(run.run_dir, text, options)):
            terminal.write(text)
    except _core.Error as error:
        return str(error)
    return failure


def _note_no_step(ends: bool) -> None:
    """Say how to trace, unless the script failed before it could: only the end of the process knows."""
    line = "no step was traced: put `with traceml_ai.trace_step(model):` around the training step"
    if not (ends and _core.report_at_exit("", f"traceml: {line}\n".encode(), 2)):
        note(line)


def _print_at_exit(run_dir: str, text: str, options: dict[str, Any]) -> bool:
    """Leave the text to the end of the process, which knows the exit code. False: it has to be printed now."""
    stdout = terminal.descriptor()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    arranged = _core.report_at_exit(run_dir, text.encode(encoding, "replace"), stdout, **options)
    return arranged and stdout >= 0


# ---- the report ----------------------------------------------------------------------------------------------------


def read_report(timeout_sec: float, options: dict[str, Any]) -> tuple[str, str] | None:
    """Return (JSON, text) of the steps so far; None when there is nothing to report.

    Raises
    ------
    RuntimeError
        ``init()`` was never called.
    """
    with _lock:
        if _run is None:
            if _off or resolve({}).disabled:
                return None
            raise RuntimeError("there is no session: call traceml_ai.init() first")
        try:
            if _run.is_ours():
                _core.flush(int(max(timeout_sec, 0.0) * 1000))
                _run.run_dir = _core.run_dir()
        except _core.Error as error:
            note(f"{_run.run_dir}: {error}")
        try:
            return _core.read_report(_run.run_dir, window_steps=_run.settings.window_steps, **options)[:2]
        except _core.Error as error:
            if error.status != "NOT_FOUND":
                note(f"{_run.run_dir}: {error}")
            return None
