"""CountMin: how often each key came, in a fixed amount of memory."""

import math
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sketches import checks
from sketches.count_min_tables import ConservativeTable, PlainTable, Table
from sketches.errors import InvalidValueError
from sketches.hashed_sketch import (
    LARGEST_TOTAL,
    HashedSketch,
    grown,
    stored_array,
    stored_field,
    stored_total,
    sum_of,
)

Backend: TypeAlias = Literal["numpy", "datasketches"]

_PLAIN_KINDS: dict[type, str] = {int: "int", str: "str"}
_BELOW_ONE = math.nextafter(1.0, 0.0)


class CountMin(HashedSketch):
    """How often each key came, never too low, in a table of fixed size.

    Each key has one cell in each of ``depth`` rows of ``width`` cells, and adds its weight to all
    of them. Its estimate is the least of its cells: its own weight plus that of the keys which
    share the cell. With probability at least ``1 - delta`` an estimate exceeds the truth by no
    more than ``epsilon * total``, where ``epsilon = e / width`` and ``delta = exp(-depth)``.

    Sketches of the same parameters add up: ``a | b`` is the sketch of both streams.

    Conservative updates: the batch of one `update` call is first summed up for each distinct key,
    then cells are raised only as far as these need. Estimates are still never too low and never
    above the plain ones; with few columns they are several times closer. In exchange the sketch
    depends on how the stream is cut into batches (larger is better), a call holds its distinct
    keys in memory, and a merge is an upper bound but no longer equal to the sketch of both.

    The backend "datasketches" counts in Apache DataSketches. It is many times slower on batches
    but faster on single keys, and `to_datasketches` exchanges with Java. It counts integers and
    texts only (not the empty one), with one seed and without conservative updates.

    >>> counts = CountMin.for_error(epsilon=0.01, delta=0.01)
    >>> counts.update(["to", "be", "or", "not", "to", "be"])
    >>> counts.add("question", 2.5)
    >>> counts.estimate(["to", "question", "that"]).tolist()
    [2.0, 2.5, 0.0]
    >>> (counts | counts).total
    17.0

    Args:
        width: how many cells a row has.
        depth: how many rows there are.
        seed: sketches with the same seed have the same hashes. By default 0; with the backend
            "datasketches" 9001, the one seed whose bytes its Python package can read.
        conservative: whether to update conservatively.
        backend: "numpy" or "datasketches".

    References:
        G. Cormode, S. Muthukrishnan, "An improved data stream summary: the count-min sketch and
        its applications", Journal of Algorithms 55 (2005).
        C. Estan, G. Varghese, "New directions in traffic measurement and accounting", SIGCOMM
        2002 (conservative update, there tuple by tuple).
    """

    __slots__ = ("_backend", "_conservative", "_table", "_total")

    def __init__(
        self,
        width: int,
        depth: int,
        seed: int | None = None,
        *,
        conservative: bool = False,
        backend: Backend = "numpy",
    ) -> None:
        table_type = _table_type(backend, conservative=conservative)
        super().__init__(width, depth, table_type.default_seed if seed is None else seed)
        self._table = table_type(width=self._width, depth=self._depth, seed=self._seed)
        self._conservative = conservative
        self._backend: Backend = backend
        self._total = 0.0

    @classmethod
    def for_error(
        cls,
        epsilon: float,
        delta: float,
        seed: int | None = None,
        *,
        conservative: bool = False,
        backend: Backend = "numpy",
    ) -> Self:
        """Return an empty sketch of the size that keeps an error.

        With probability at least ``1 - delta`` an estimate exceeds the truth by no more than
        ``epsilon * total``. This is the bound of Cormode and Muthukrishnan: ``ceil(e / epsilon)``
        columns and ``ceil(ln(1 / delta))`` rows. (The papers on online shuffle grouping take
        ``ceil(log2(1 / delta))`` rows, which is more than this bound asks for.)

        Args:
            epsilon: the error, as a share of the total; above 0 and below 1.
            delta: how likely a larger error may be; above 0 and below 1.
            seed: as for the class.
            conservative: as for the class.
            backend: as for the class.
        """
        epsilon = checks.number("epsilon", epsilon, above=0.0, up_to=_BELOW_ONE)
        delta = checks.number("delta", delta, above=0.0, up_to=_BELOW_ONE)
        return cls(
            math.ceil(math.e / epsilon),
            math.ceil(-math.log(delta)),
            seed,
            conservative=conservative,
            backend=backend,
        )

    @property
    def conservative(self) -> bool:
        """Whether updates are conservative."""
        return self._conservative

    @property
    def backend(self) -> Backend:
        """The backend of the counters."""
        return self._backend

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return self._total

    @property
    def epsilon(self) -> float:
        """The error that an estimate rarely exceeds, as a share of the total."""
        return math.e / self._width

    @property
    def delta(self) -> float:
        """The largest probability that an estimate exceeds that error."""
        return math.exp(-self._depth)

    def update(self, keys: Any, weights: Any = None) -> None:
        """Count a batch of keys.

        Args:
            keys: what `sketches.keys.as_keys` reads, such as an array, an Arrow array or a
                sequence; of the kind of those before.
            weights: a finite, non-negative number for each key; one for all if left out.

        Raises:
            InvalidKeyError: a key cannot be counted, or is of another kind.
            InvalidValueError: a weight cannot be counted, or there are more or fewer than keys.
        """
        column = self._read(keys)
        amount = float(len(column))
        if weights is not None:
            weights = checks.weights("weights", weights, len(column))
            amount = sum_of(weights)
        total = grown("total", self._total, amount)
        self._table.add(column, weights)
        self._total = total
        self._remember_kind(column)

    def add(self, key: Any, weight: float = 1.0) -> None:
        """Count one key. To count many, `update` is much faster."""
        known = self._kind is not None and _PLAIN_KINDS.get(type(key)) == self._kind
        if not (known and type(weight) in (float, int) and 0 <= weight <= LARGEST_TOTAL):
            self.update([key], [weight])
            return
        total = grown("total", self._total, weight)
        self._table.add_one(key, weight)
        self._total = total

    def estimate(self, keys: Any) -> NDArray[np.float64]:
        """Return the estimate of each key: at least its weight, and zero if nothing was counted.

        Raises:
            InvalidKeyError: a key could not have been counted, or is of another kind.
        """
        return self._table.estimate(self._read(keys))

    def to_datasketches(self) -> bytes:
        """Return the counters as Apache DataSketches writes them, for its libraries to read.

        Raises:
            InvalidValueError: the backend is not "datasketches".
        """
        return self._table.to_datasketches()

    @classmethod
    def from_datasketches(cls, data: bytes) -> Self:
        """Read the bytes of a CountMinSketch of Apache DataSketches with its default seed.

        Its kind of key is not in the bytes; the first batch settles it.

        Raises:
            CorruptDataError: the bytes are truncated, damaged, or not those of such a sketch.
        """
        from sketches.count_min_datasketches import read  # noqa: PLC0415  # only if asked for

        width, depth, total = read(data)
        sketch: Self = cls(width, depth, backend="datasketches")
        sketch._table.load(np.frombuffer(data, dtype=np.uint8))
        sketch._total = total
        return sketch

    def _parameters(self) -> dict[str, Any]:
        # The seed last: backends have their own, and a refusal should name the backend first.
        return {
            "width": self._width,
            "depth": self._depth,
            "conservative": self._conservative,
            "backend": self._backend,
            "seed": self._seed,
        }

    def _totals(self) -> dict[str, float]:
        return {"total": self._total}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"table": self._table.to_array()}

    @classmethod
    def _restore(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        sketch: Self = cls(
            stored_field(fields, "width"),
            stored_field(fields, "depth"),
            checks.seed(stored_field(fields, "seed")),
            conservative=stored_field(fields, "conservative"),
            backend=stored_field(fields, "backend"),
        )
        sketch._table.load(stored_array(arrays, "table"))
        sketch._total = stored_total(fields, "total")
        return sketch

    def _absorb(self, other: Self, totals: Mapping[str, float]) -> None:
        self._table.merge(other._table)
        self._total = totals["total"]


def _table_type(backend: object, *, conservative: object) -> type[Table]:
    """Return the table of counters."""
    if not isinstance(conservative, bool):
        raise InvalidValueError(f"conservative={conservative!r} is not a bool; give True or False")
    if backend == "numpy":
        return ConservativeTable if conservative else PlainTable
    if backend != "datasketches":
        raise InvalidValueError(f"backend={backend!r} is not known; give 'numpy' or 'datasketches'")
    if conservative:
        raise InvalidValueError(
            "conservative=True does not work with backend='datasketches'; use backend='numpy'"
        )
    from sketches.count_min_datasketches import DatasketchesTable  # noqa: PLC0415  # as above

    return DatasketchesTable
