"""Loader number: tells loaders, and the passes over one, apart in the records of their fetches.

The number of a loader is in the bits above 16, that of a pass below. Which loaders feed the steps is found out in C.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

_loaders = itertools.count(1)
_passes = itertools.count(1)
# By id(), as a loader need not be hashable; the weak reference tells a later object at the same address.
_known: dict[int, tuple[weakref.ref[Any], int]] = {}


def new_loader() -> int:
    """Return a number of its own; 0 is for those that are not known."""
    return next(_loaders) % 0xFFFF + 1


def next_source(loader: Any) -> int:
    """Return the number of a new pass over `loader`."""
    return pass_over(_number_of(loader))


def pass_over(number: int) -> int:
    """Return the number of a new pass over the loader with that number."""
    return number << 16 | next(_passes) & 0xFFFF


def _number_of(loader: Any) -> int:
    key = id(loader)
    known = _known.get(key)
    if known is not None and known[0]() is loader:
        return known[1]
    try:
        reference = weakref.ref(loader, lambda gone: _forget(key, gone))
    except TypeError:  # of a kind that allows no weak references
        return 0
    number = new_loader()
    _known[key] = (reference, number)
    return number


def _forget(key: int, reference: weakref.ref[Any]) -> None:
    known = _known.get(key)
    if known is not None and known[0] is reference:
        del _known[key]
