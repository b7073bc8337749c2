"""What key groups had to do at one instance in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.runtime.observe.row_sizes import row_size, row_sizes
from optimizers.runtime.task.fact_columns import no_reals, no_wholes
from optimizers.runtime.task.parcels import Parcel
from sketches.arrays import Floats, Parts


@dataclass(frozen=True, slots=True)
class Arrived:
    """Parcels that were put one after the other, as they arrived.

    Attributes:
        rows: how many tuples each holds.
        sizes: how many bytes each has.
        remote: whether each came from another machine.
    """

    rows: NDArray[np.int64] = field(default_factory=no_wholes)
    sizes: NDArray[np.int64] = field(default_factory=no_wholes)
    remote: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @classmethod
    def of(cls, parcels: Sequence[Parcel], place: str) -> "Arrived":
        """Return what is to be known of parcels that arrived at a place."""
        return cls(
            np.array([parcel.rows for parcel in parcels], dtype=np.int64),
            np.array([parcel.size for parcel in parcels], dtype=np.int64),
            np.array([parcel.place != place for parcel in parcels], dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """The loads of the key groups that had tuples; the first element of each is of the first group.

    Attributes:
        groups: which these are.
        tuples: how many tuples each had.
        keys: how many keys those were of.
        seconds: CPU seconds that were measured key by key; empty where they were not.
        bytes_in: how large the tuples were.
        remote_in: how large those were that came from other machines.
    """

    groups: NDArray[np.int64] = field(default_factory=no_wholes)
    tuples: NDArray[np.int64] = field(default_factory=no_wholes)
    keys: NDArray[np.int64] = field(default_factory=no_wholes)
    seconds: Floats = field(default_factory=no_reals)
    bytes_in: Floats = field(default_factory=no_reals)
    remote_in: Floats = field(default_factory=no_reals)


def groups_seen(  # noqa: PLR0913, PLR0917
    groups: Parts,
    numbers: NDArray[np.int64],
    counts: NDArray[np.int64],
    tuples: pa.Table,
    arrived: Arrived,
    seconds: Floats | None = None,
) -> GroupsSeen:
    """Return what key groups had to do.

    Args:
        groups: the key group of each key.
        numbers: for each tuple, the number of its key.
        counts: for each key, how many tuples have it.
        tuples: the tuples.
        arrived: the parcels in which they came.
        seconds: the CPU seconds of each key, if they were measured.
    """
    count = int(groups.max(initial=-1)) + 1
    there = np.bincount(groups, counts, count).astype(np.int64)
    chosen = np.flatnonzero(there)
    bytes_in, remote_in = _bytes_in(groups, numbers, there, tuples, arrived)
    return GroupsSeen(
        chosen,
        there[chosen],
        np.bincount(groups, minlength=count)[chosen],
        no_reals() if seconds is None else _summed(groups, seconds, count)[chosen],
        bytes_in[chosen],
        remote_in[chosen],
    )


def _bytes_in(
    groups: Parts,
    numbers: NDArray[np.int64],
    there: NDArray[np.int64],
    tuples: pa.Table,
    arrived: Arrived,
) -> tuple[Floats, Floats]:
    """Return how large the tuples of each group are in their parcels: all, and those from afar.

    Rows are only looked at one by one where they differ in size or in where they come from.
    """
    far, total = arrived.remote, float(arrived.sizes.sum())
    sizes = row_sizes(tuples) if row_size(tuples) is None else None
    own = there.astype(np.float64)
    if sizes is not None:
        own = _summed(groups[numbers], sizes, len(there))
    whole = _as_total(own, total)
    if not far.any() or far.all():
        return whole, whole if far.any() else np.zeros(len(there))
    # Tuples of one parcel stand together. The fewer ones are looked at, from near or from afar.
    ends = np.cumsum(arrived.rows)
    fewer = far if 2 * arrived.rows[far].sum() <= ends[-1] else ~far
    parts = [
        slice(end - rows, end) for rows, end in zip(arrived.rows[fewer], ends[fewer], strict=True)
    ]
    looked_at = groups[np.concatenate([numbers[part] for part in parts])]
    weights = None if sizes is None else np.concatenate([sizes[part] for part in parts])
    remote = np.bincount(looked_at, weights, len(there)).astype(np.float64, copy=False)
    if fewer is not far:
        remote = np.maximum(own - remote, 0.0)  # what is taken off may leave a last bit
    return whole, _as_total(remote, float(arrived.sizes[far].sum()))


def _summed(places: Parts, amounts: Floats, number: int) -> Floats:
    """Return the sums of what is at each place."""
    return np.bincount(places, amounts, number).astype(np.float64, copy=False)


class BytesOut:
    """Adds up by key group how many bytes of tuples are sent, and how many to other machines.

    Args:
        number: how many key groups there are.

    Attributes:
        known: whether it is known of all tuples by which key they came.
    """

    def __init__(self, number: int) -> None:
        self._sums = np.zeros((2, number))
        self.known = True

    def add(self, tuples: pa.Table, groups: Parts | None, remote: NDArray[np.bool_] | None) -> None:
        """Count tuples, each of a key group, and whether it goes to another machine; or none do."""
        if groups is None or len(groups) != len(tuples):
            self.known = False
            return
        size, number = row_size(tuples), self._sums.shape[1]
        sizes = row_sizes(tuples) if size is None else None
        if remote is None:
            sums = np.bincount(groups, sizes, number)
            self._sums[0] += sums if size is None else size * sums
            return
        # Those that stay and those that leave are counted at once, next to each other.
        cells = 2 * groups
        cells += remote
        near, far = np.bincount(cells, sizes, 2 * number).reshape(number, 2).T
        self._sums += (near + far, far) if size is None else (size * (near + far), size * far)

    def sums(self, total: int, remote: int) -> NDArray[np.float64] | None:
        """Return both by key group, as large as they were in parcels; None where not known."""
        if not self.known:
            return None
        return np.array(
            [_as_total(*each) for each in zip(self._sums, (total, remote), strict=True)]
        )


def _as_total(sizes: Floats, total: float) -> Floats:
    own = float(sizes.sum())
    return sizes * (total / own) if own else sizes
