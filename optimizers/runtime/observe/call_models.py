"""What calls of operators take, as far as the driver knows it from all batches so far."""

from collections.abc import Callable

import numpy as np

from optimizers.runtime.observe.call_sums import SUMS, CallModel, call_sums
from optimizers.runtime.task.reports import Reports
from sketches.arrays import Floats

READING = ""
"""In place of the name of an operator: reading what arrived, of which a tuple is a byte."""

_LASTING = 0.8
"""What calls count once another epoch has come after theirs."""


class CallModels:
    """The calls of all operators of a job."""

    def __init__(self) -> None:
        self._sums: dict[str, Floats] = {}

    def add(self, reports: Reports) -> None:
        """Take in the calls of a batch."""
        self._add_reading(reports)
        told = reports.vectors("call_sums")
        for name, tasks in reports.tasks.items():
            values = told.taken(tasks).values
            if len(values):
                sums = values.reshape(-1, SUMS).sum(axis=0)
                self._sums[name] = self._sums.get(name, 0.0) + sums

    def model(self, name: str) -> CallModel | None:
        """Return what calls of an operator take; None where too few are known."""
        sums = self._sums.get(name)
        return None if sums is None else CallModel.of(sums)

    def _add_reading(self, reports: Reports) -> None:
        """Take in how long keyed tasks took to read what arrived, all in the same way."""
        sizes = reports.vectors("group_in")
        tasks = np.flatnonzero(sizes.lengths)
        if len(tasks):
            bytes_in = np.bincount(sizes.rows, sizes.values, len(reports))[tasks].tolist()
            seconds = reports.numbers("reading_in")[tasks].tolist()
            sums = call_sums(
                (size, 0.0, 0.0, took) for size, took in zip(bytes_in, seconds, strict=True)
            )
            self._sums[READING] = self._sums.get(READING, 0.0) + sums

    def fade(self) -> None:
        """Let what is known count less than what comes: an epoch is over."""
        self._sums = {name: _LASTING * sums for name, sums in self._sums.items()}


ModelOf = Callable[[str], CallModel | None]
"""Says what calls of an operator take."""
