"""State that stays in the memory of a process from batch to batch, so that it is not read again."""

from collections import OrderedDict

import pyarrow as pa

from optimizers.runtime.files import Location
from optimizers.runtime.layout import Instance
from optimizers.runtime.state_file import StateFile, read_states

_RESIDENT_BYTES = 1 << 29

# What this process has seen last: of use only if the files tell that it is still the same.
_STATES: "OrderedDict[tuple[str, Instance], tuple[tuple[StateFile, ...], pa.Table]]" = OrderedDict()


def state_in(
    location: Location, instance: Instance, files: tuple[StateFile, ...]
) -> pa.Table | None:
    """Return the state that these files hold, without reading them if it is still here."""
    known = _STATES.get((location.root, instance))
    if known is not None and known[0] == files:
        return known[1]
    return read_states(location, files) if files else None


def keep(
    location: Location, instance: Instance, files: tuple[StateFile, ...], state: pa.Table
) -> None:
    """Keep state for the next batch, and forget what was not used for the longest time."""
    name = location.root, instance
    _STATES[name] = files, state
    _STATES.move_to_end(name)
    size = sum(table.nbytes for _, table in _STATES.values())
    while size > _RESIDENT_BYTES:
        _, (_, oldest) = _STATES.popitem(last=False)
        size -= oldest.nbytes


def forget() -> None:
    """Forget all of it, as a new process would not know it."""
    _STATES.clear()
