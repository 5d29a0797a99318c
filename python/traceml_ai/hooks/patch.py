"""Patch: an attribute replaced in such a way that everything is as before afterwards."""

from __future__ import annotations

from typing import Any

_MISSING = object()


class Patch:
    """Replace ``owner.name`` and put back what was there.

    Parameters
    ----------
    owner : object
        A module or class.
    name : str
        The attribute.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        # What the owner itself had: an inherited attribute is restored by deleting ours, not by copying it down.
        self._own = vars(owner).get(name, _MISSING)
        self._replacement: Any = _MISSING

    @property
    def original(self) -> Any:
        """What stood there, own or inherited."""
        return getattr(self._owner, self._name) if self._own is _MISSING else self._own

    def put(self, replacement: Any) -> None:
        """Set the replacement."""
        self._replacement = replacement
        setattr(self._owner, self._name, replacement)

    def restore(self) -> None:
        """Put back what was there, unless somebody replaced ours since: theirs calls ours, which then passes on."""
        if vars(self._owner).get(self._name, _MISSING) is not self._replacement or self._replacement is _MISSING:
            return
        if self._own is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._own)
        self._replacement = _MISSING
