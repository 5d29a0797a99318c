"""Arguments: an argparse that says one line on what is wrong."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn


class UsageError(Exception):
    """Wrong usage: one line on what is wrong and what is accepted."""


class Parser(argparse.ArgumentParser):
    """Raises :class:`UsageError` where argparse prints its usage and exits."""

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
