"""Fetch: the ``__next__`` that all iterators of ``torch.utils.data.DataLoader`` inherit, and whose iterator each is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from traceml_ai import _core
from traceml_ai.hooks.patch import Patch
from traceml_ai.loader_number import next_source

PHASE = _core.PHASE_DATALOADER_FETCH

_patches: list[Patch] = []


def _tagging(original: Callable[..., None]) -> Callable[..., None]:
    """Write on each new iterator which loader it is of: it keeps no reference to it."""

    @functools.wraps(original)
    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        self._traceml_source = next_source(loader)
        original(self, loader, *args, **kwargs)

    return __init__


def install() -> None:
    """Put the timed callable in place. Iterators keep their type, length, eager worker start and clean-up."""
    if _patches:
        return
    for name, replace in (("__init__", _tagging), ("__next__", _core.Fetch)):
        patch = Patch(_BaseDataLoaderIter, name)
        patch.put(replace(patch.original))
        _patches.append(patch)


def remove() -> None:
    """Put back what was there."""
    while _patches:
        _patches.pop().restore()


def times(loader: Any) -> bool:
    """Return whether fetches of this object are timed by the hook already."""
    return bool(_patches) and isinstance(loader, DataLoader | _BaseDataLoaderIter)
