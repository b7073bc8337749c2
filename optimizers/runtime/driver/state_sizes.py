"""How much state instances hold, as they said the last time that they looked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizers.runtime.state.cache import UNKNOWN
from optimizers.runtime.task.fact_columns import Ragged, no_reals, no_wholes
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.work import StateFiles
from sketches.arrays import Floats, Indices


@dataclass(frozen=True, slots=True)
class _Told:
    """What the instances of one operator said last.

    Attributes:
        looked: which of them have looked at all.
        sizes: how many bytes each holds, and how many of them stay in memory; NaN where that is not
            known.
        instances: the instance of each entry of what is held by key group.
        groups: the key group of each entry.
        held: the bytes of each entry.
    """

    looked: NDArray[np.bool_]
    sizes: Floats
    instances: NDArray[np.int64]
    groups: NDArray[np.int64]
    held: Floats

    @classmethod
    def nothing(cls) -> "_Told":
        none = np.empty(0, dtype=np.bool_), np.empty((2, 0))
        return cls(*none, no_wholes(), no_wholes(), no_reals())

    def then(self, numbers: Indices, sizes: Floats, groups: Ragged, held: Ragged) -> "_Told":
        """Return what is known once these instances have looked again."""
        count = max(len(self.looked), int(numbers.max(initial=-1)) + 1)
        looked, known = np.zeros(count, dtype=np.bool_), np.zeros((2, count))
        looked[: len(self.looked)] = self.looked
        known[:, : len(self.looked)] = self.sizes
        looked[numbers], known[:, numbers] = True, np.where(sizes == UNKNOWN, np.nan, sizes)
        stay = ~np.isin(self.instances, numbers)
        return _Told(
            looked,
            known,
            np.concatenate([self.instances[stay], numbers[groups.rows]]),
            np.concatenate([self.groups[stay], groups.values]),
            np.concatenate([self.held[stay], held.values]),
        )


class StateSizes:
    """The sizes of the state of all instances of a job.

    An instance without tuples does not look, and holds what it held. After a driver has started,
    nothing is known of an instance before it has looked.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def add(self, reports: Reports, state: StateFiles) -> None:
        """Take in what instances say of a batch.

        Args:
            reports: the reports of all tasks.
            state: the state after the batch.
        """
        sizes, numbers = reports.vectors("state_size"), reports.numbers("instance")
        for name, tasks in reports.tasks.items():
            looked = tasks[sizes.lengths[tasks] > 0]
            if len(looked):
                groups, held = (reports.vectors(each).taken(looked) for each in _HELD)
                told = self._told.get(name, _Told.nothing())
                pairs = sizes.taken(looked).values.reshape(-1, 2).T
                self._told[name] = told.then(numbers[looked], pairs.astype(float), groups, held)
        for _, dropped in reports.documents("dropped"):
            for name, number, path in dropped:
                self._drop(name, number, path, state)

    def _drop(self, name: str, number: int, path: str, state: StateFiles) -> None:
        """Note that a state went from memory, unless a newer one of the instance is there."""
        files = state.get(name, ())
        if number < len(files) and files[number] and files[number][-1].path == path:
            told = self._told.get(name)
            if told is not None and number < len(told.looked):
                told.sizes[1, number] = 0.0

    def of(self, state: StateFiles) -> "HeldState":
        """Return what is known of the state that a commit names."""
        found = {}
        for name, instances in state.items():
            told = self._told.get(name, _Told.nothing())
            holds = np.array([bool(files) for files in instances], dtype=np.bool_)
            knows = np.zeros(len(holds), dtype=np.bool_)
            knows[: len(told.looked)] = told.looked[: len(holds)]
            if (knows | ~holds).all():
                found[name] = _of_holders(told, holds)
        return HeldState(found)


_HELD = ("held_groups", "held_bytes")


def _of_holders(told: _Told, holds: NDArray[np.bool_]) -> _Told:
    """Return what was said by those that hold any state by now."""
    sizes = np.zeros((2, len(holds)))
    count = min(len(holds), len(told.looked))
    sizes[:, :count] = np.where(holds[:count], told.sizes[:, :count], 0.0)
    mine = told.instances < len(holds)
    mine[mine] = holds[told.instances[mine]]
    return _Told(holds, sizes, told.instances[mine], told.groups[mine], told.held[mine])


@dataclass(frozen=True)
class HeldState:
    """How much state operators hold of which all instances are known.

    Attributes:
        told: what their instances said.
    """

    told: Mapping[str, _Told]

    def total(self, name: str) -> float | None:
        """Return how many bytes of state an operator holds; None where that is not known."""
        told = self.told.get(name)
        return None if told is None else float(told.sizes[0].sum())

    def by_instance(self, name: str, instances: int) -> tuple[Floats | None, Floats | None]:
        """Return how many bytes each instance holds, and how many of them stay in memory.

        Each is None where it is not known.
        """
        told = self.told.get(name)
        if told is None:
            return None, None
        found = np.zeros((2, max(instances, len(told.looked))))
        found[:, : len(told.looked)] = told.sizes
        held, resident = found[:, :instances]
        return held, None if np.isnan(resident).any() else resident

    def by_group(self, name: str, groups: int) -> Floats | None:
        """Return how many bytes of state each key group has; None where that is not known."""
        told = self.told.get(name)
        if told is None or len(np.setdiff1d(np.flatnonzero(told.sizes[0]), told.instances)):
            return None
        found: Floats = np.bincount(told.groups, told.held, groups).astype(np.float64)
        return found
