"""InitConfig: which automatic hooks ``init()`` was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from traceml_ai.settings import PATCHES

MODES = ("auto", "manual", "selective")


@dataclass(frozen=True)
class TraceMLInitConfig:
    """What ``init()`` switched on.

    Attributes
    ----------
    mode : str
        ``auto``, ``manual`` or ``selective``.
    patch_dataloader, patch_forward, patch_backward, patch_h2d : bool
        The automatic hooks. Copies are not observed in this version whatever `patch_h2d` says; the report says so.
    source : str
        Who asked.
    disabled : bool
        Whether nothing is traced.
    """

    mode: str
    patch_dataloader: bool
    patch_forward: bool
    patch_backward: bool
    patch_h2d: bool
    source: str = "user"
    disabled: bool = False

    def same_effective_configuration(self, other: TraceMLInitConfig) -> bool:
        """Return whether both switch on the same, whoever asked."""
        return self._effective() == other._effective()

    def _effective(self) -> tuple[Any, ...]:
        return (self.mode, *(getattr(self, name) for name in PATCHES), self.disabled)


DISABLED = TraceMLInitConfig("manual", False, False, False, False, disabled=True)


def from_arguments(mode: Any, patches: Mapping[str, bool | None]) -> TraceMLInitConfig:
    """Check the arguments of ``init()`` that choose the hooks.

    Raises
    ------
    ValueError
        An unknown mode or a contradiction; the text says which.
    """
    name = mode.strip().lower() if isinstance(mode, str) else mode
    name = "selective" if name == "custom" else name
    given = {key: bool(value) for key, value in patches.items() if value is not None}
    if name not in MODES:
        raise ValueError(f"init(mode={mode!r}): accepted are 'auto', 'manual', 'selective' and its alias 'custom'")
    if given and name != "selective":
        raise ValueError(f"init(mode='{name}', {next(iter(given))}=...): patch_* needs mode='selective'")
    if name == "selective" and not any(given.values()):
        raise ValueError("init(mode='selective') needs at least one patch_*=True; without any use mode='manual'")
    return TraceMLInitConfig(name, *(name == "auto" or given.get(key, False) for key in PATCHES))
