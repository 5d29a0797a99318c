"""Wrappers: what the user times by hand where no automatic hook does."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from traceml_ai import _core
from traceml_ai.loader_number import new_loader, pass_over

_NEEDS = "wrap_dataloader_fetch() needs a loader, an iterator, or a callable that returns the next batch"

_get = object.__getattribute__


class _Wrapped:
    """Stands in for a loader: what is asked of it is asked of the original, ``isinstance`` included."""

    __slots__ = ("__weakref__", "_traceml_number", "_traceml_original")

    def __init__(self, original: Any, number: int) -> None:
        object.__setattr__(self, "_traceml_original", original)
        object.__setattr__(self, "_traceml_number", number)

    @property
    def __class__(self) -> type:
        return type(self._traceml_original)

    def __getattr__(self, name: str) -> Any:
        return getattr(_get(self, "_traceml_original"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._traceml_original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._traceml_original, name)

    def __dir__(self) -> list[str]:
        return dir(self._traceml_original)

    def __repr__(self) -> str:
        return f"<timed {self._traceml_original!r}>"

    def __len__(self) -> int:
        return len(self._traceml_original)

    def __bool__(self) -> bool:
        return bool(self._traceml_original)

    def __getitem__(self, key: Any) -> Any:
        return self._traceml_original[key]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self._traceml_original, self._traceml_number)


class _WrappedLoader(_Wrapped):
    """Hands out timed iterators."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return _WrappedIterator(iter(self._traceml_original), pass_over(self._traceml_number))


class _WrappedIterator(_Wrapped):
    """Times each batch."""

    __slots__ = ("_traceml_begun",)

    def __init__(self, original: Any, number: int) -> None:
        super().__init__(original, number)
        object.__setattr__(self, "_traceml_begun", False)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        first = not self._traceml_begun
        if first:
            object.__setattr__(self, "_traceml_begun", True)
        return _core.fetch(self._traceml_number, first, next, self._traceml_original)


class _WrappedCallable(_Wrapped):
    """Times each call."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _core.fetch(self._traceml_number << 16, False, self._traceml_original, *args, **kwargs)


def wrap_dataloader_fetch(obj: Any) -> Any:
    """Time the fetches of a loader that is no PyTorch ``DataLoader``, or of one whose automatic hook is off.

    Parameters
    ----------
    obj : iterable, iterator or callable
        What hands out batches: a loader with ``__iter__``, an iterator with ``__next__``, or a function that returns
        the next batch, such as the ``get`` of a queue that a producer thread fills.

    Returns
    -------
    object
        Use it in the place of `obj`, on the thread that trains: attributes, ``len`` and ``isinstance`` are those of
        `obj`. The time of each fetch is the input wait of the step that follows on the thread that fetches; what a
        producer thread does meanwhile is nobody's.

    Raises
    ------
    TypeError
        `obj` is none of these.
    RuntimeError
        The automatic hook times it already.
    """
    if issubclass(type(obj), _Wrapped):  # not isinstance: it says what the original is
        return obj
    kind = _kind_of(obj)
    hook = sys.modules.get("traceml_ai.hooks.dataloader")
    if hook is not None and hook.times(obj):
        raise RuntimeError(
            "wrap_dataloader_fetch(): the automatic hook times every DataLoader already; pass another kind of loader, "
            "or call init() with mode='manual', or mode='selective' without patch_dataloader=True"
        )
    _core.set_armed(_core.PHASE_DATALOADER_FETCH, True)
    number = new_loader()
    return kind(obj, pass_over(number) if kind is _WrappedIterator else number)


def _kind_of(obj: Any) -> type[_Wrapped]:
    torch = sys.modules.get("torch")
    if isinstance(obj, type | str | bytes) or (torch is not None and isinstance(obj, torch.nn.Module)):
        raise TypeError(f"{_NEEDS}, not {obj!r:.80}")
    if hasattr(obj, "__next__"):
        return _WrappedIterator
    if hasattr(obj, "__iter__"):
        return _WrappedLoader
    if not callable(obj):
        raise TypeError(f"{_NEEDS}, not {type(obj).__name__}")
    if inspect.iscoroutinefunction(obj) or inspect.isgeneratorfunction(obj) or inspect.isasyncgenfunction(obj):
        raise TypeError(f"{_NEEDS}; {obj.__qualname__} is a coroutine or generator function: pass what it returns")
    return _WrappedCallable
