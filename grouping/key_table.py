"""The base of tables of keys: a number for each named key, others by their hash."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from grouping.grouping import Grouping
from grouping.hashing import LARGEST_PARTS, code_parts
from grouping.key_batch import KeyBatch
from grouping.key_documents import key_from_json, key_to_json
from grouping.key_slots import ABSENT, KeySlots
from sketches.arrays import Codes, Parts
from sketches.checks import whole
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError
from sketches.key_columns import KeyColumn, PackedPairs
from sketches.key_identity import distinct
from sketches.keys import as_keys
from sketches.values import numeric, protected


@dataclass(frozen=True, init=False, eq=False, repr=False)
class KeyTable(Grouping):
    """Names a part for each of some keys: an instance or a key group, as its subclass says.

    Tables are values: equal if they name the same parts for the same keys, in any order. Keys with
    equal codes are told apart.

    Attributes:
        parts: the part of each key, in the order of `keys`.
    """

    parts: Parts
    _column: KeyColumn
    _count: int
    one_owner: ClassVar[bool] = True
    needs_key: ClassVar[bool] = True
    part: ClassVar[str]  # what a part is, in messages
    fields: ClassVar[tuple[str, str]]  # what documents call the parts, and how many there are

    def __init__(self, keys: Any, parts: Any, count: int) -> None:
        number = whole(self.fields[1], count, at_least=1, at_most=LARGEST_PARTS)
        column = as_keys(keys, seed=0)
        if isinstance(column, PackedPairs):
            column = column.unpacked()
        named = self._checked(parts, column, number)
        order = _in_order(column, named)
        object.__setattr__(self, "_column", column.take(order))
        object.__setattr__(self, "parts", protected(named[order]))
        object.__setattr__(self, "_count", number)

    @property
    def key_kind(self) -> str | None:
        """The kind of the keys, such as "int" or "(str, int)"; None if there are none."""
        return self._column.kind if len(self) else None

    @cached_property
    def keys(self) -> NDArray[Any]:
        """The keys, each once, in an order that depends on them alone: int64 or objects."""
        column = self._column
        array = column.codes.view(np.int64) if column.kind == "int" else column.objects()
        return protected(array)

    def __len__(self) -> int:
        """How many keys are named."""
        return len(self.parts)

    def assign(self, keys: Any, *, seed: int | None = None) -> Parts:
        """Return the part of each key, by the table or else by its hash.

        Args:
            keys: keys of the table's kind. An Arrow dictionary array is looked up by its words.
            seed: of the hash; without, that of keys that were read before, and else 0.

        Raises:
            InvalidKeyError: these are not keys, or not of the table's kind.
        """
        return self.find(keys, seed=seed)[1]

    def find(self, keys: Any, *, seed: int | None = None) -> tuple[NDArray[np.bool_], Parts]:
        """Return which keys the table names, and the part of each, as `assign` does."""
        batch = KeyBatch.read(keys, seed)
        column = batch.column
        parts = self.look_up(column)
        known = parts != ABSENT
        unknown = np.flatnonzero(~known)
        parts[unknown] = code_parts(column.codes[unknown], self._count, seed=column.seed)
        return batch.spread(known), batch.spread(parts)

    def look_up(self, keys: KeyColumn) -> Parts:
        """Return the part that the table names for each key; `ABSENT` where it names none.

        Raises:
            InvalidKeyError: these are not of the table's kind.
        """
        self.check_kind(keys)
        return self._slots(keys.seed).find(keys)

    @property
    def codes(self) -> Codes:
        """The code of each key that is named, in the order of `keys`."""
        return self._column.codes

    def codes_by(self, seed: int) -> Codes:
        """Return the codes of the keys by another seed, in the same order."""
        return self._seeded(seed).codes

    @property
    def column(self) -> KeyColumn:
        """The keys that are named, in the order of `keys`."""
        return self._column

    def with_keys(self, keys: Any, parts: Any) -> Self:
        """Return a table that names more keys.

        Raises:
            InvalidKeyError: these are not keys, or not of the table's kind.
            InvalidValueError: a key already has another part, or a part is out of range.
        """
        column = as_keys(keys, seed=0)
        self.check_kind(column)
        more = type(self)(column, parts, self._count)
        if not len(self) or not len(more):
            return self if len(self) else more
        named = np.concatenate([self.parts, more.parts])
        return type(self)(self._column.joined(more.column), named, self._count)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON types."""
        parts, count = self.fields
        return {
            count: self._count,
            "keys": [key_to_json(key) for key in self.keys.tolist()],
            parts: self.parts.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Build it from what `to_dict` returned."""
        keys = fields.get("keys")
        if not isinstance(keys, list):
            raise CorruptDataError(f"keys={keys!r} of a routing table is not a list of keys")
        return cls(**{**fields, "keys": [key_from_json(key) for key in keys]})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self._content() != other._content():
            return False
        places = np.arange(len(self))
        return bool(self._column.same(places, other._column, places).all())

    def __hash__(self) -> int:
        # A hash of bytes is not the same in every process; nothing is routed or ordered by it.
        return hash(self._content())

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return type(self), (self.keys, self.parts, self._count)

    def __repr__(self) -> str:
        kind = f" {self.key_kind}" if self.key_kind else ""
        return f"{type(self).__name__}({len(self)}{kind} keys, {self.fields[1]}={self._count})"

    def check_kind(self, column: KeyColumn) -> None:
        """Refuse keys of another kind than the table has."""
        if len(column) and self.key_kind not in (None, column.kind):
            raise InvalidKeyError(
                f"keys of kind {column.kind} are unknown to a table of {self.key_kind} keys; "
                "use one table for each kind"
            )

    def _slots(self, seed: int) -> KeySlots:
        """Return the index of keys by their codes of a seed."""
        slots = self._by_seed.get(seed)
        if slots is None:
            slots = self._by_seed[seed] = KeySlots(self._seeded(seed), self.parts)
        return slots

    def _seeded(self, seed: int) -> KeyColumn:
        return self._column.seeded(seed)

    @cached_property
    def _by_seed(self) -> dict[int, KeySlots]:
        return {}

    def _content(self) -> tuple[object, ...]:
        # Codes for keys: two tables of other keys with these codes are still not equal.
        return self._count, self.key_kind, self._column.codes.tobytes(), self.parts.tobytes()

    @classmethod
    def _checked(cls, parts: Any, column: KeyColumn, count: int) -> Parts:
        """Return the parts as int32, or say which is none."""
        name = cls.fields[0]
        array = numeric(name, parts)
        if array.size and array.dtype.kind not in "iu":
            raise InvalidValueError(
                f"{name} of type {array.dtype} are not whole numbers; give {cls.part} for each key"
            )
        if array.shape != (len(column),):
            raise InvalidValueError(
                f"{name} of shape {array.shape} do not fit {len(column)} keys; "
                "give one for each key"
            )
        wrong = np.flatnonzero((array < 0) | (array >= count))
        if len(wrong):
            raise InvalidValueError(
                f"key {_key_at(column, wrong[0])!r} is given to {array[wrong[0]]}; "
                f"give it {cls.part} from 0 to {count - 1}"
            )
        return array.astype(np.int32)


def _in_order(column: KeyColumn, parts: Parts) -> NDArray[np.int64]:
    """Return where each key first is, by rising codes and then keys; a key must have one part."""
    # Stable, and made of few sorted runs where a table grows: close to a mere merge.
    order = np.argsort(column.codes, kind="stable")
    codes = column.codes[order]
    if not (codes[1:] == codes[:-1]).any():
        return order
    numbers, firsts = distinct(column)
    wrong = np.flatnonzero(parts != parts[firsts][numbers])
    if len(wrong):
        one, other = parts[firsts[numbers[wrong[0]]]], parts[wrong[0]]
        raise InvalidValueError(
            f"key {_key_at(column, wrong[0])!r} is given to both {one} and {other}; "
            "a key has one owner"
        )
    return firsts


def _key_at(column: KeyColumn, place: np.intp) -> Any:
    return column.take(np.array([place])).objects()[0]
