"""What key groups had to do at one instance in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.runtime.observe.row_sizes import row_sizes
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


def groups_seen(
    groups: Parts,
    numbers: NDArray[np.int64],
    tuples: pa.Table,
    arrived: Arrived,
    seconds: Floats | None = None,
) -> GroupsSeen:
    """Return what key groups had to do.

    Args:
        groups: the key group of each key.
        numbers: for each tuple, the number of its key.
        tuples: the tuples.
        arrived: the parcels in which they came.
        seconds: the CPU seconds of each key, if they were measured.
    """
    count = int(groups.max(initial=-1)) + 1
    of_rows = groups[numbers]
    there = np.bincount(of_rows, minlength=count)
    chosen = np.flatnonzero(there)

    def summed(places: NDArray[Any], amounts: Floats | None = None) -> NDArray[Any]:
        return np.bincount(places, amounts, count)[chosen]

    sizes = row_sizes(tuples)
    whole = summed(of_rows, _as_sent(sizes, float(arrived.sizes.sum())))
    if not arrived.remote.any():
        remote = np.zeros(len(chosen))
    elif arrived.remote.all():
        remote = whole
    else:
        far = sizes * np.repeat(arrived.remote, arrived.rows)
        remote = summed(of_rows, _as_sent(far, float(arrived.sizes[arrived.remote].sum())))
    return GroupsSeen(
        chosen,
        there[chosen],
        summed(groups),
        no_reals() if seconds is None else summed(groups, seconds),
        whole,
        remote,
    )


def _as_sent(sizes: Floats, total: float) -> Floats:
    """Return sizes of rows as they are in parcels, which together have so many bytes."""
    own = float(sizes.sum())
    if own:
        return sizes * (total / own)
    return np.full(len(sizes), total / max(len(sizes), 1))


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

    def add(self, tuples: pa.Table, groups: Parts | None, remote: NDArray[np.bool_]) -> None:
        """Count tuples, each of a key group, and whether it goes to another machine."""
        if groups is None or len(groups) != len(tuples):
            self.known = False
            return
        sizes, number = row_sizes(tuples), self._sums.shape[1]
        self._sums[0] += np.bincount(groups, sizes, number)
        if remote.any():
            self._sums[1] += np.bincount(groups, sizes * remote, number)

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
