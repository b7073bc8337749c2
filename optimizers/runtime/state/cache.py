"""State that stays in the memory of a process from batch to batch, to save reading it again.

An instance's task may run in any worker of its executor, so each may come to hold a copy. Each
keeps at most its share of the executor's limit (`Settings.resident`).
"""

from collections import OrderedDict, defaultdict
from typing import TypeAlias

import pyarrow as pa

from optimizers.layout import Instance
from optimizers.runtime.state.file import StateFile, read_states
from optimizers.runtime.storage.location import Location

_Name = tuple[str, Instance]

Dropped: TypeAlias = tuple[str, int, str]
"""An operator, its instance, and the last file of the state of it that is no longer here."""

UNKNOWN = -1
"""How much is in memory of a state that was only read and is not here: it may be elsewhere."""


class _StateMemory:
    """States by the folder of their checkpoint and their instance, the latest used last."""

    def __init__(self) -> None:
        self.states: OrderedDict[_Name, tuple[tuple[StateFile, ...], pa.Table]] = OrderedDict()
        self.bytes = 0
        self.dropped: dict[str, list[Dropped]] = defaultdict(list)  # by the folder

    def put(self, name: _Name, files: tuple[StateFile, ...], state: pa.Table, most: int) -> None:
        """Replace a state by a newer one, and drop the oldest states if it is too much."""
        self.drop(name)
        size = state.nbytes
        if size <= most:  # otherwise none of the others has to go
            self.states[name] = files, state
            self.bytes += size
        while self.bytes > most:
            name, (gone, _) = next(iter(self.states.items()))
            folder, instance = name
            self.dropped[folder].append((instance.operator, instance.number, gone[-1].path))
            self.drop(name)

    def drop(self, name: _Name) -> None:
        """Forget a state, if there is one."""
        _, state = self.states.pop(name, (None, None))
        if state is not None:
            self.bytes -= state.nbytes


# The last states in this process: valid only if the files are still the same.
_MEMORY = _StateMemory()


def state_in(
    location: Location, instance: Instance, files: tuple[StateFile, ...]
) -> pa.Table | None:
    """Return the state in these files, without reading them if it is still here."""
    known = _MEMORY.states.get((location.root, instance))
    if known is not None and known[0] == files:
        return known[1]
    return read_states(location, files) if files else None


def keep(
    location: Location,
    instance: Instance,
    files: tuple[StateFile, ...],
    state: pa.Table,
    *,
    most: int,
) -> None:
    """Keep state for the next batch, and drop the least recently used.

    Args:
        location: the checkpoint.
        instance: whose state it is.
        files: the files that hold it as well.
        state: the state.
        most: how many bytes of state this process keeps, of all instances together.
    """
    _MEMORY.put((location.root, instance), files, state, most)


def holds(location: Location, instance: Instance, files: tuple[StateFile, ...]) -> bool:
    """Return whether the state in these files is kept for the next batch."""
    files_here, _ = _MEMORY.states.get((location.root, instance), (None, None))
    return files_here == files


def dropped(location: Location) -> tuple[Dropped, ...]:
    """Return, once, which states of a checkpoint had to go to make room for others."""
    return tuple(_MEMORY.dropped.pop(location.root, ()))


def kept() -> int:
    """Return how many bytes of state this process keeps."""
    return _MEMORY.bytes


def forget() -> None:
    """Forget all of it, as a new process would not know it."""
    for name in list(_MEMORY.states):
        _MEMORY.drop(name)
    _MEMORY.dropped.clear()
