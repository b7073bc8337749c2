"""The arithmetic of SpaceSaving: summaries of streams, and the one operation on them.

A summary holds some keys with a count and an error each, and a floor. It keeps two promises:

1. a tracked key was really seen at least ``count - error`` and at most ``count``;
2. an untracked key was really seen at most ``floor``.

`exact` makes a summary of a block of keys in which every key is tracked and the floor is 0.
`combine` makes one of two streams out of one of each. A key that both track has the sum of its
counts and of its errors. A key that only one of them tracks may have been seen in the other up to
that one's floor: it is added to the count, and to the error as well, as it may also have been 0.
A key that none tracks was seen at most the sum of the floors. So both promises hold for the two
streams together. Then only the `capacity` largest counts are kept; the floor rises to the largest
count that is dropped, and promise 2 holds for the dropped keys too.

How high can the floor get? Call ``count - floor`` of a tracked key its lead. No lead is negative:
it is never below the floor that the key was added to, and no smaller than what is dropped. Let M
be ``sum of leads + (capacity + 1) * floor``; then ``M <= total`` (the weight of the stream):

* in a block the floor is 0, and M is the total;
* adding two summaries adds floors and leads: a key that both track has the sum of its two leads, a
  key that one tracks the lead it had there. So M is the sum of both, as is the total;
* let dropping raise the floor by d. The `capacity` keys that stay lose d of their lead each, and
  the largest key that goes had a lead of d and loses all of it, so at least ``(capacity + 1) * d``
  of leads are gone, which is what the floor's term has gained.

Hence ``floor <= total / (capacity + 1)``: what Misra-Gries and SpaceSaving promise. In practice the
floor is far lower, as the counts of a block are exact until its end.

All this is exact as long as the sums are: with whole numbers up to 2^53, for instance. Weights with
long binary fractions make it hold up to their rounding.
"""

from dataclasses import dataclass

import numpy as np

from sketches.arrays import Codes, Floats, Indices
from sketches.fingerprints import mix
from sketches.key_columns import InvertibleKeys, KeyColumn, unified

# Far from where sums of doubles overflow, so that none of the sums of a summary can.
LARGEST_TOTAL = 2.0**1000

# Marks a row whose key another row counts already: less than any count.
_COUNTED = -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A summary of a stream: keys in the order of their ids, with a count and an error each.

    Attributes:
        keys: the tracked keys, all different, by ascending ids.
        counts: for each, what it was seen at most.
        errors: for each, by how much that may be too high.
        floor: what any other key was seen at most.
        total: the weight of the whole stream.
    """

    keys: KeyColumn
    counts: Floats
    errors: Floats
    floor: float
    total: float

    @property
    def nbytes(self) -> int:
        """Memory of the counters, in bytes."""
        return self.keys.nbytes + self.counts.nbytes + self.errors.nbytes

    def unified(self, other: "Rows") -> tuple["Rows", "Rows"]:
        """Return this and the other with keys in columns of one class."""
        mine, theirs = unified(self.keys, other.keys)
        return self.with_keys(mine), other.with_keys(theirs)

    def with_keys(self, keys: KeyColumn) -> "Rows":
        """Return the same rows, with the same keys in another class of column."""
        if keys is self.keys:
            return self
        return sorted_by_id(keys, self.counts, self.errors, self.floor, self.total)

    def heaviest_first(self) -> Indices:
        """Return the places by falling count, then rising error, then rising code of the key."""
        return np.lexsort((self.keys.codes, self.errors, -self.counts))


def sorted_by_id(
    keys: KeyColumn, counts: Floats, errors: Floats, floor: float, total: float
) -> Rows:
    """Return the summary that has these rows, which may be in any order."""
    order = np.argsort(keys.ids)
    return Rows(keys.take(order), counts[order], errors[order], floor, total)


def nothing(like: KeyColumn) -> Rows:
    """Return the summary of a stream without keys, ready to take keys of this kind."""
    return Rows(like.take(slice(0, 0)), np.empty(0), np.empty(0), 0.0, 0.0)


def exact(keys: KeyColumn, weights: Floats | None) -> Rows:
    """Return a summary of a block of keys (at least one) that tracks all of them exactly."""
    if weights is None and isinstance(keys, InvertibleKeys):
        # Sorting values is several times faster than sorting places, and here it is enough.
        ids = np.sort(keys.ids)
        starts = _starts(ids)
        column: KeyColumn = keys.of(ids[starts])
        sums = np.diff(starts, append=len(ids)).astype(np.float64)
    else:
        order = np.argsort(keys.ids)
        ids = keys.ids[order]
        starts = _starts(ids)
        column = keys.take(order[starts])
        groups = np.empty(len(ids), dtype=np.intp)
        groups[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))
        # Added in the order of the stream, whichever of equal ids the sort put first.
        sums = np.bincount(groups, weights).astype(np.float64, copy=False)
    return Rows(column, sums, np.zeros(len(sums)), 0.0, float(sums.sum()))


def combine(first: Rows, second: Rows, capacity: int) -> Rows:
    """Return a summary of two streams together, with at most `capacity` keys."""
    first, second = first.unified(second)
    mine, theirs = _matches(first.keys.ids, second.keys.ids)
    size = len(first.counts)
    counts = np.concatenate([first.counts + second.floor, second.counts + first.floor])
    counts[mine] = first.counts[mine] + second.counts[theirs]
    counts[theirs + size] = _COUNTED
    errors = np.concatenate([first.errors + second.floor, second.errors + first.floor])
    errors[mine] = first.errors[mine] + second.errors[theirs]
    floor = first.floor + second.floor
    total = first.total + second.total

    if len(counts) - len(mine) <= capacity:
        kept = np.flatnonzero(counts > _COUNTED)
    else:
        border = _border(counts, size, capacity)
        kept = np.flatnonzero(counts > border)
        tied = np.flatnonzero(counts == border)
        spare = capacity - len(kept)
        if spare < len(tied):
            floor = max(floor, border)
            surest, rest = _surest(tied, errors, spare)
            ranks = mix(_at(first.keys, second.keys, rest).codes)
            tied = np.concatenate([surest, rest[_lowest(ranks, spare - len(surest))]])
        else:
            floor = max(floor, float(counts[counts < border].max()))
        kept = np.sort(np.concatenate([kept, tied]))
    keys = _at(first.keys, second.keys, kept)
    return sorted_by_id(keys, counts[kept], errors[kept], floor, total)


def _border(counts: Floats, size: int, capacity: int) -> float:
    """Return the `capacity`-th largest count; the first `size` are of one summary."""
    if size >= capacity:
        # As many counts as can stay are at least this one, so the border is not below it. Only
        # few of a block's many new keys are above: the rest need not be sorted.
        lightest = counts[:size].min()
        counts = counts[counts > lightest]
        if len(counts) < capacity:
            return float(lightest)
    return float(np.sort(counts)[len(counts) - capacity])


def _surest(tied: Indices, errors: Floats, number: int) -> tuple[Indices, Indices]:
    """Split places of equal counts: less than `number` that surely stay, and those that may.

    Of equal upper bounds, the smaller error is the larger lower bound. Keeping it costs nothing
    and finds more of the heavy keys, as it tells old acquaintances from newcomers.
    """
    limit = np.sort(errors[tied])[number - 1]
    return tied[errors[tied] < limit], tied[errors[tied] == limit]


def _lowest(ranks: Codes, number: int) -> Indices:
    """Return the places of the `number` lowest ranks.

    Scattered codes as ranks let every machine keep the same keys, in any order of arrival,
    and favour none for being a small number. Only values are sorted: where a sort or a partition
    of *places* leaves equal ones differs from processor to processor.
    """
    limit = np.sort(ranks)[number - 1]
    return np.flatnonzero(ranks <= limit)[:number]


def _at(first: KeyColumn, second: KeyColumn, places: Indices) -> KeyColumn:
    """Return the keys at ascending places in two columns, the second after the first."""
    end = int(np.searchsorted(places, len(first)))
    return first.take(places[:end]).joined(second.take(places[end:] - len(first)))


def _matches(first: Codes, second: Codes) -> tuple[Indices, Indices]:
    """Return the places in both of the ids that both hold; ids are ascending and distinct."""
    if len(first) > len(second):
        theirs, mine = _matches(second, first)
        return mine, theirs
    places = np.searchsorted(second, first)
    places[places == len(second)] = 0
    found = np.flatnonzero(second[places] == first) if len(second) else places
    return found, places[found]


def _starts(ids: Codes) -> Indices:
    """Return the places where a new id begins in sorted ids."""
    new = np.empty(len(ids), dtype=np.bool_)
    new[0] = True
    np.not_equal(ids[1:], ids[:-1], out=new[1:])
    return np.flatnonzero(new)
