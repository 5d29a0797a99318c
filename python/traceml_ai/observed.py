"""Observed: what a run shows of itself once: its loader, its strategy, its epochs."""

from __future__ import annotations

import json
import threading
from typing import Any

from traceml_ai import _core, environment


class Observed:
    """Facts that become known while the run goes on; the extension calls in at the rare moments that tell them."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {}
        self._passes: dict[int, int] = {}  # passes begun over a dataset, by its id
        self._ended: dict[int, int] = {}  # of these, the ones that handed out all batches
        self._feeder: int | None = None  # id of the dataset that the steps are fed from
        self._step_thread: int | None = None

    def environment_json(self) -> str:
        """Return ``meta.environment`` as known now."""
        return json.dumps({**environment.collect(), **self._facts}, default=str)

    def publish(self) -> None:
        """Hand it to the open session."""
        _core.set_environment(self.environment_json())

    def on_model(self, model: Any) -> None:
        """A model was given to ``trace_step`` for the first time."""
        if self._step_thread is None:
            self._step_thread = threading.get_ident()
            self._set_epoch()
        if self._facts.get("strategy", "none") == "none":
            self._facts["strategy"] = environment.strategy_of(model)
        self.publish()

    def on_iterator(self, iterator: Any, grad_enabled: bool, exhausted: bool) -> None:
        """An iterator of a DataLoader handed out its first batch, or said that it has no more.

        The loader that feeds the steps is taken to be the last one before the first step that was read with gradients
        on; loaders read without are for validation.
        """
        if not grad_enabled:
            return
        dataset = id(getattr(iterator, "_dataset", None))
        if exhausted:  # an iterator that is asked again says so again
            self._ended[dataset] = min(self._ended.get(dataset, 0) + 1, self._passes.get(dataset, 0))
            return
        self._passes[dataset] = self._passes.get(dataset, 0) + 1
        if self._step_thread is None or self._feeder is None:
            self._feeder = dataset
            self._facts["loader"] = environment.loader_settings(iterator)
        if dataset == self._feeder and threading.get_ident() == self._step_thread:
            self._set_epoch()
            if self._passes[dataset] == 1:
                self.publish()

    def epochs_begun(self) -> int:
        """Return the passes begun over the dataset that the steps are fed from; 0 when it is not known."""
        return self._passes.get(self._feeder, 0) if self._feeder is not None else 0

    def epochs_completed(self) -> int:
        """Return how many of these handed out all their batches."""
        return self._ended.get(self._feeder, 0) if self._feeder is not None else 0

    def _set_epoch(self) -> None:
        if self.epochs_begun():
            _core.set_epoch(self.epochs_begun() - 1)
