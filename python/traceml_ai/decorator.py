"""Decorator: what ``span(name)`` makes of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from traceml_ai._core import Span


def decorate(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with a span of that name around each call.

    Raises
    ------
    TypeError
        It is not callable, or its call returns before its work is done, so that the span would time nothing.
    """
    if not callable(function):
        raise TypeError(f"span({name!r}) decorates a function, not {type(function).__name__}")
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise TypeError(
            f"span({name!r}) cannot time {function.__qualname__}(): a coroutine or generator function returns before "
            "its work is done; use `with span(...)` inside it"
        )

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with Span(name):
            return function(*args, **kwargs)

    return timed
