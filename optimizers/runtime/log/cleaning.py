"""Which files of a checkpoint are no longer needed, by their names."""

import re
from collections.abc import Container, Iterable

from optimizers.runtime.storage.location import TEMPORARY

# The batch stands at the beginning of a name, after the dot of those still being written.
_BATCH = re.compile(r"\.?(\d{10})[-.]")


COMPACTED = "compact-"
"""The names of attempts that rewrite state begin so."""


def garbage(
    names: Iterable[str], needed: Container[str], *, up_to: int, alone: bool = False
) -> list[str]:
    """Return the files that no kept commit refers to: of old batches, of lost attempts.

    Files whose names do not name a batch are left alone.

    Args:
        names: all files of state or of output.
        needed: the files that commits refer to which are to be kept.
        up_to: the newest batch that is done. Files of later ones may be at work.
        alone: whether no other process works here. If not, one may be rewriting the state of the
            newest batch.
    """
    return [
        name
        for name in names
        if name not in needed
        and _is_old(name, up_to)
        and (alone or not (f"-{COMPACTED}" in name and batch_of(name) == up_to))
    ]


def cut_off(names: Iterable[str], *, up_to: int) -> list[str]:
    """Return the records of finished batches whose writing was cut off."""
    return [name for name in names if name.endswith(TEMPORARY) and _is_old(name, up_to)]


def batch_of(name: str) -> int | None:
    """Return the batch in which a file was written; None if its name does not say."""
    found = _BATCH.match(name.rpartition("/")[2])
    return None if found is None else int(found[1])


def _is_old(name: str, up_to: int) -> bool:
    batch = batch_of(name)
    return batch is not None and batch <= up_to
