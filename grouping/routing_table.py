"""Routing tables: who owns which key, written down for known keys and hashed for others."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from grouping.grouping import Grouping
from grouping.hashing import LARGEST_PARTS, code_parts
from grouping.key_batch import KeyBatch
from grouping.key_slots import ABSENT, KeySlots
from grouping.routers import OwnerRouter, Router
from sketches.arrays import Codes, Parts
from sketches.checks import whole
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError
from sketches.key_columns import KeyColumn, PackedPairs
from sketches.key_identity import distinct
from sketches.keys import as_keys
from sketches.values import numeric, protected


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RoutingTable(Grouping):
    """Send each key to the instance that the table names, and unknown keys by their hash.

    Tables are values: equal if they name the same owners of the same keys, in whatever order
    they were given. An empty one routes as `Fields` does, keys of any kind.

    >>> table = RoutingTable(["Asia", "#java", "#python"], [0, 0, 1], instances=2)
    >>> table.assign(["#python", "Asia", "#haskell"]).tolist()
    [1, 0, 1]
    >>> table.with_keys(["#haskell"], [0]).assign(["#haskell"]).tolist()
    [0]

    Args:
        keys: distinct keys of one kind, in any container that `sketches.keys.as_keys` reads. A
            key may be there twice if it has the same owner both times.
        parts: for each key, the instance that owns it.
        instances: how many instances there are.
        adopts: whether unknown keys are to be given an owner beside their partners, by
            `grouping.keygraph.first_touch`: before the batch they first come in is routed, or when
            it is over. The table itself knows no partners; this tells whoever executes the job.

    Attributes:
        parts: the owners, in the order of `keys`.

    References:
        Caneill et al., "Locality-aware routing in stateful streaming applications", Middleware
        2016, section 3.3.
    """

    parts: Parts
    adopts: bool
    _column: KeyColumn
    _instances: int
    kind: ClassVar[str] = "table"
    one_owner: ClassVar[bool] = True
    needs_key: ClassVar[bool] = True

    def __init__(self, keys: Any, parts: Any, instances: int, *, adopts: bool = False) -> None:
        if not isinstance(adopts, bool):
            raise InvalidValueError(f"adopts={adopts!r} is not a bool; give True or False")
        count = whole("instances", instances, at_least=1, at_most=LARGEST_PARTS)
        column = as_keys(keys, seed=0)
        if isinstance(column, PackedPairs):
            column = column.unpacked()
        owners = _owners(parts, column, count)
        order = _in_order(column, owners)
        object.__setattr__(self, "_column", column.take(order))
        object.__setattr__(self, "parts", protected(owners[order]))
        object.__setattr__(self, "_instances", count)
        object.__setattr__(self, "adopts", adopts)

    @property
    def instances(self) -> int:
        """How many instances it was made for."""
        return self._instances

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
        """How many keys have an owner by name."""
        return len(self.parts)

    def assign(self, keys: Any, *, seed: int | None = None) -> Parts:
        """Return the instance of each key, by the table or else by its hash.

        Args:
            keys: keys of the table's kind. An Arrow dictionary array is looked up by its words.
            seed: of the hash; without, that of keys that were read before, and else 0.

        Raises:
            InvalidKeyError: these are no keys, or not of the table's kind.
        """
        return self.find(keys, seed=seed)[1]

    def find(self, keys: Any, *, seed: int | None = None) -> tuple[NDArray[np.bool_], Parts]:
        """Return which keys the table knows, and the instance of each, as `assign` does."""
        batch = KeyBatch.read(keys, seed)
        column = batch.column
        parts = self.look_up(column)
        known = parts != ABSENT
        unknown = np.flatnonzero(~known)
        parts[unknown] = code_parts(column.codes[unknown], self.instances, seed=column.seed)
        return batch.spread(known), batch.spread(parts)

    def look_up(self, keys: KeyColumn) -> Parts:
        """Return the instance that the table names for each key; `ABSENT` where it names none.

        Raises:
            InvalidKeyError: these are not of the table's kind.
        """
        self.check_kind(keys)
        return self._slots(keys.seed).find(keys)

    @property
    def codes(self) -> Codes:
        """The code of each key that has an owner by name, in the order of `keys`."""
        return self._column.codes

    def codes_by(self, seed: int) -> Codes:
        """Return the codes of the keys by another seed, in the same order."""
        return self._seeded(seed).codes

    @property
    def column(self) -> KeyColumn:
        """The keys that have an owner by name, in the order of `keys`."""
        return self._column

    def with_keys(self, keys: Any, parts: Any) -> "RoutingTable":
        """Return a table that knows more keys.

        Raises:
            InvalidKeyError: these are no keys, or not of the table's kind.
            InvalidValueError: a key has another owner already; a part is no instance.
        """
        column = as_keys(keys, seed=0)
        self.check_kind(column)
        more = RoutingTable(column, parts, self.instances, adopts=self.adopts)
        if not len(self) or not len(more):
            return self if len(self) else more
        owners = np.concatenate([self.parts, more.parts])
        joined = self._column.joined(more._column)
        return RoutingTable(joined, owners, self.instances, adopts=self.adopts)

    def adopting(self) -> "RoutingTable":
        """Return the same table, whose unknown keys are to be given owners; see `adopts`."""
        twin = RoutingTable.__new__(RoutingTable)
        for name in ("parts", "_column", "_instances"):
            object.__setattr__(twin, name, getattr(self, name))
        object.__setattr__(twin, "adopts", True)
        return twin

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON types."""
        adopts = {"adopts": True} if self.adopts else {}
        return {
            "instances": self.instances,
            **adopts,
            "keys": [_written(key) for key in self.keys.tolist()],
            "parts": self.parts.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "RoutingTable":
        """Build it from what `to_dict` returned."""
        keys = fields.get("keys")
        if not isinstance(keys, list):
            raise CorruptDataError(f"keys={keys!r} of a routing table is not a list of keys")
        return cls(**{**fields, "keys": [_read(key) for key in keys]})

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
        made = partial(type(self), adopts=self.adopts)
        return made, (self.keys, self.parts, self.instances)

    def __repr__(self) -> str:
        kind = f" {self.key_kind}" if self.key_kind else ""
        adopts = ", adopts=True" if self.adopts else ""
        return f"RoutingTable({len(self)}{kind} keys, instances={self.instances}{adopts})"

    def _slots(self, seed: int) -> KeySlots:
        """Return what finds keys by their codes of a seed."""
        slots = self._by_seed.get(seed)
        if slots is None:
            slots = self._by_seed[seed] = KeySlots(self._seeded(seed), self.parts)
        return slots

    def _seeded(self, seed: int) -> KeyColumn:
        return self._column.seeded(seed)

    @cached_property
    def _by_seed(self) -> dict[int, KeySlots]:
        return {}

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return OwnerRouter(instances, self.assign)

    def _content(self) -> tuple[object, ...]:
        # Codes for keys: two tables of other keys with these codes are still not equal.
        owners = self._column.codes.tobytes(), self.parts.tobytes()
        return self.instances, self.adopts, self.key_kind, *owners

    def check_kind(self, column: KeyColumn) -> None:
        """Refuse keys of another kind than the table has."""
        if len(column) and self.key_kind not in (None, column.kind):
            raise InvalidKeyError(
                f"keys of kind {column.kind} are unknown to a table of {self.key_kind} keys; "
                "use one table for each kind"
            )


def _owners(parts: Any, column: KeyColumn, instances: int) -> Parts:
    """Return the parts as int32, or say which is no instance."""
    array = numeric("parts", parts)
    if array.size and array.dtype.kind not in "iu":
        raise InvalidValueError(
            f"parts of type {array.dtype} are not whole numbers; give each key's instance"
        )
    if array.shape != (len(column),):
        raise InvalidValueError(
            f"parts of shape {array.shape} do not fit {len(column)} keys; give one for each key"
        )
    wrong = np.flatnonzero((array < 0) | (array >= instances))
    if len(wrong):
        raise InvalidValueError(
            f"key {_key_at(column, wrong[0])!r} is given to {array[wrong[0]]}; "
            f"give it an instance from 0 to {instances - 1}"
        )
    return array.astype(np.int32)


def _in_order(column: KeyColumn, owners: Parts) -> NDArray[np.int64]:
    """Return where each key first is, by rising codes and then keys; a key must have one owner."""
    # Stable, and made of few sorted runs where a table grows: close to a mere merge.
    order = np.argsort(column.codes, kind="stable")
    codes = column.codes[order]
    if not (codes[1:] == codes[:-1]).any():
        return order
    numbers, firsts = distinct(column)
    wrong = np.flatnonzero(owners != owners[firsts][numbers])
    if len(wrong):
        one, other = owners[firsts[numbers[wrong[0]]]], owners[wrong[0]]
        raise InvalidValueError(
            f"key {_key_at(column, wrong[0])!r} is given to both {one} and {other}; "
            "a key has one owner"
        )
    return firsts


def _key_at(column: KeyColumn, place: np.intp) -> Any:
    return column.take(np.array([place])).objects()[0]


def _written(key: Any) -> Any:
    """Return a key as JSON types: bytes in base64, pairs as lists, times as ISO 8601 has them."""
    match key:
        case bytes():
            return {"base64": base64.b64encode(key).decode("ascii")}
        case datetime():
            return {"timestamp": key.isoformat()}
        case date():
            return {"date": key.isoformat()}
        case Decimal():
            return {"decimal": str(key)}
        case (left, right):
            return [_written(left), _written(right)]
        case _:
            return key


def _read(key: Any) -> Any:
    """Return the key that was written so; one that is none is refused by the table."""
    match key:
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise CorruptDataError(f"key {key!r} is not in base64: {error}") from error
        case {"timestamp": str(text), **rest} if not rest:
            return _parsed(datetime.fromisoformat, text, key)
        case {"date": str(text), **rest} if not rest:
            return _parsed(date.fromisoformat, text, key)
        case {"decimal": str(text), **rest} if not rest:
            return _parsed(Decimal, text, key)
        case [left, right]:
            return _read(left), _read(right)
        case _:
            return key


def _parsed(parse: Callable[[str], Any], text: str, key: object) -> Any:
    try:
        return parse(text)
    except (ValueError, InvalidOperation):
        raise CorruptDataError(f"key {key!r} cannot be read; write it as Penstock does") from None
