"""Types of the extension module; its sources are in python/ext/."""

import os
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

__version__: str
PHASES: tuple[str, ...]
PHASE_STEP: int
PHASE_DATALOADER_FETCH: int
PHASE_H2D: int
PHASE_FORWARD: int
PHASE_BACKWARD: int
PHASE_OPTIMIZER: int
PHASE_EVALUATION: int
PHASE_CHECKPOINT: int
PHASE_USER: int

class Error(Exception):
    status: str

class TraceStep:
    def __new__(cls, model: Any) -> TraceStep: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> bool: ...

class Span:
    def __new__(cls, name: str) -> Span: ...
    def __enter__(self) -> Span: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> bool: ...
    def __call__(self, function: _Function, /) -> _Function: ...

class Timer:
    def __init__(
        self,
        phase: int,
        role: Literal["around", "before", "after"],
        model: weakref.ref[Any] | None = ...,
        original: Callable[..., Any] | None = ...,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Fetch:
    __wrapped__: Callable[..., Any]
    def __init__(self, original: Callable[..., Any], /) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def open(
    *,
    logs_dir: str | None = ...,
    run_name: str | None = ...,
    program: str | None = ...,
    environment: str | None = ...,
    rank: int = ...,
    local_rank: int = ...,
    world_size: int = ...,
    tick_ms: int = ...,
    flush_ms: int = ...,
    event_deadline_ms: int = ...,
    stop_ms: int = ...,
    max_steps: int = ...,
    file_steps: int = ...,
    armed: int = ...,
    adopt_run_dir: bool = ...,
) -> None: ...
def report_at_exit(
    run_dir: str | os.PathLike[str],
    text: bytes,
    descriptor: int,
    *,
    window_steps: int = ...,
    columns: int = ...,
    ascii: bool = ...,
    color: bool = ...,
) -> bool: ...
def run_ended(run_dir: str | os.PathLike[str], reason: str, /) -> None: ...
def close(reason: str | None = None, run: str | None = None) -> None: ...
def forget() -> None: ...
def set_callbacks(
    *,
    on_model: Callable[[Any], Any] | None = ...,
    find_parameter: Callable[[Any], Any] | None = ...,
    on_iterator: Callable[[Any, bool, bool], Any] | None = ...,
    is_running: Callable[[Any], bool] | None = ...,
    raw_stream: Callable[[int], int] | None = ...,
    is_grad_enabled: Callable[[], bool] | None = ...,
) -> None: ...
def is_open() -> bool: ...
def flush(timeout_ms: int, /) -> None: ...
def run_dir() -> str: ...
def steps_completed() -> int: ...
def set_environment(json: str, /) -> None: ...
def set_armed(phase: int, armed: bool, /) -> None: ...
def set_hook_cost(phase: int, cost_ns: int, /) -> None: ...
def set_epoch(epoch: int, /) -> None: ...
def departure() -> str | None: ...
def enter(phase: int, owner: Any, /) -> bool: ...
def leave(phase: int, owner: Any, /) -> None: ...
def skipped(phase: int, /) -> None: ...
def fetch(source: int, first: bool, callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...
def serve(function: _Function, /) -> _Function: ...
def read_report(
    path: Any,
    *,
    window_steps: int = ...,
    columns: int = ...,
    ascii: bool = ...,
    color: bool = ...,
    end_reason: str | None = ...,
    unsaved: bool = ...,
) -> tuple[str, str, int]: ...
def write_report(run_dir: Any, json: str, text: str, /) -> None: ...
def compare(
    old: Any,
    new: Any,
    *,
    window_steps: int = ...,
    max_step_time_regression_pct: float = ...,
    columns: int = ...,
    ascii: bool = ...,
    color: bool = ...,
) -> tuple[str, str, str, str]: ...
def write_comparison(base: Any, json: str, text: str, /) -> None: ...
