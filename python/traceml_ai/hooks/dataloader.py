"""Fetch: the ``__next__`` that all iterators of ``torch.utils.data.DataLoader`` inherit."""

from __future__ import annotations

from torch.utils.data.dataloader import _BaseDataLoaderIter

from traceml_ai import _core
from traceml_ai.hooks.patch import Patch

PHASE = _core.PHASE_DATALOADER_FETCH

_patch: Patch | None = None


def install() -> None:
    """Put the timed callable in place. Iterators keep their type, length, eager worker start and clean-up."""
    global _patch
    if _patch is None:
        _patch = Patch(_BaseDataLoaderIter, "__next__")
        _patch.put(_core.Fetch(_patch.original))


def remove() -> None:
    """Put back what was there."""
    global _patch
    if _patch is not None:
        _patch.restore()
        _patch = None
