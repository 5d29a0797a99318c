"""Arguments: an argparse that says one line on what is wrong."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, NoReturn

SIMILAR = 0.8  # of a mistyped option and the one that was meant; 1.0 is the same


class UsageError(Exception):
    """Wrong usage: one line on what is wrong and what is accepted."""


class Parser(argparse.ArgumentParser):
    """Raises :class:`UsageError` where argparse prints its usage and exits; accepts no abbreviations."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, **arguments)

    def refuse(self, unknown: list[str], advice: str) -> None:
        """Raise if there is an argument that nobody knows: which, what it may have meant, and `advice`."""
        if unknown:
            raise UsageError(f"{self.prog.split()[-1]}: {self._name_of(unknown[0])}; {advice}")

    def _name_of(self, unknown: str) -> str:
        if not unknown.startswith("-"):
            return f"unknown argument '{unknown}'"
        flag = unknown.partition("=")[0]
        known = [flag for action in self._actions if action.help != argparse.SUPPRESS for flag in action.option_strings]
        meant = difflib.get_close_matches(flag, known, 1, SIMILAR)
        return f"unknown option '{flag}'" + (f" (did you mean {meant[0]}?)" if meant else "")

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise UsageError(f"{self.prog.split()[-1]}: {message}; see '{self.prog} --help'")


class WithoutEffect(argparse.Action):
    """An option of ``traceml-ai`` that has no meaning here; it is remembered, so that one line can say so."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Remember that it was given."""
        ignored = [*getattr(namespace, self.dest, ()), option]
        setattr(namespace, self.dest, ignored)


def split_script_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split at the first ``--`` or ``--args``: what follows is the script's, untouched."""
    for index, argument in enumerate(arguments):
        if argument in ("--", "--args"):
            return arguments[:index], arguments[index + 1 :]
    return arguments, []
