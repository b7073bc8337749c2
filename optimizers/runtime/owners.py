"""Which instance owns which key of an operator."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.grouping import Grouping
from grouping.hashing import Parts, code_parts
from grouping.key_batch import KeyBatch
from grouping.routing_table import RoutingTable
from grouping.slots import ABSENT
from sketches.keys import Codes
from sketches.values import ArrayValue, protected

_NONE: Codes = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class KeyOwners:
    """The owner of each key of one operator: the table's choice, else that of the key's group.

    >>> owners = KeyOwners((0, 0, 1, 1), RoutingTable(["Asia"], [1], 2))
    >>> owners.assign(["Asia", "Oceania", "Europe"]).tolist()
    [1, 0, 0]

    Attributes:
        groups: the instance of each key group.
        table: the keys whose owner is given by name; None if there are none.
        rule: a grouping of another sort, that chooses the owner of each key by itself.
        parallelism: how many instances there are, if more than the others name.
        seed: of the hash by which keys fall into groups.
    """

    groups: tuple[int, ...]
    table: RoutingTable | None = None
    rule: Grouping | None = None
    parallelism: int = 1
    seed: int = 0

    @property
    def instances(self) -> int:
        """How many instances there are; some may own nothing."""
        named = 0 if self.table is None else self.table.instances
        return max(named, self.parallelism, 1 + max(self.groups))

    def assign(self, keys: Any) -> Parts:
        """Return the owner of each key."""
        batch = KeyBatch.read(keys, self.seed)
        if self.rule is not None:
            return self.rule.router(self.instances).route(len(batch), batch)
        codes = batch.column.codes
        if self.table is None or not len(self.table):
            return batch.spread(self.by_group(codes))
        parts = self.table.look_up(batch.column)
        unknown = np.flatnonzero(parts == ABSENT)
        if len(unknown):
            parts[unknown] = self.by_group(codes[unknown])
        return batch.spread(parts)

    def by_group(self, codes: Codes) -> Parts:
        """Return who would own each key, told by its code, if the table did not know it."""
        chosen: Parts = self._groups[code_parts(codes, len(self.groups), seed=self.seed)]
        return chosen

    @cached_property
    def _groups(self) -> Parts:
        return np.array(self.groups, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Handover(ArrayValue):
    """What changes hands between two sets of owners, as far as it can be told without the state.

    Attributes:
        codes: keys that are named in a table before or after, and change their owner; ascending,
            by the seed of the owners.
        senders: who owns each now.
        recipients: who is to own it.
        groups: key groups that change their instance, with all keys that no table names.
        from_instances: the instance of each of these groups now.
        to_instances: the instance of each of these groups then.
    """

    codes: Codes
    senders: Parts
    recipients: Parts
    groups: NDArray[np.int32]
    from_instances: Parts
    to_instances: Parts

    def __post_init__(self) -> None:
        for name in ("codes", "senders", "recipients", "groups", "from_instances", "to_instances"):
            object.__setattr__(self, name, protected(getattr(self, name)))

    def __bool__(self) -> bool:
        """Whether anything changes hands."""
        return bool(len(self.codes) or len(self.groups))

    def received(self, instance: int) -> dict[int, tuple[Codes, NDArray[np.int32]]]:
        """Return by sender the named keys and the key groups that an instance is to receive."""
        named, grouped = self.recipients == instance, self.to_instances == instance
        senders = {*self.senders[named].tolist(), *self.from_instances[grouped].tolist()}
        return {
            sender: (
                self.codes[named & (self.senders == sender)],
                self.groups[grouped & (self.from_instances == sender)],
            )
            for sender in sorted(senders)
        }

    def sends(self, instance: int) -> bool:
        """Return whether an instance has anything to give away."""
        return bool((self.senders == instance).any() or (self.from_instances == instance).any())


def handover(old: KeyOwners, new: KeyOwners) -> Handover:
    """Return what changes hands from one set of owners to another of the same key groups.

    Of a rule it can only be told key by key, so everybody has to look at what all others have.
    """
    if old.rule is not None or new.rule is not None:
        return _anything(old, new)
    named = [
        owners.table.codes_by(owners.seed) for owners in (old, new) if owners.table is not None
    ]
    codes = np.unique(np.concatenate([_NONE, *named]))
    before, after = _owners_of(old, codes), _owners_of(new, codes)
    changed = before != after
    first, second = np.array(old.groups, np.int32), np.array(new.groups, np.int32)
    groups = np.flatnonzero(first != second).astype(np.int32)
    return Handover(
        codes[changed], before[changed], after[changed], groups, first[groups], second[groups]
    )


def _anything(old: KeyOwners, new: KeyOwners) -> Handover:
    """Return that any key may go from any instance to any other, unless all is as it was."""
    ranges = map(np.arange, (len(old.groups), old.instances, new.instances))
    groups, senders, recipients = (cells.ravel().astype(np.int32) for cells in np.meshgrid(*ranges))
    same = (old.rule, old.instances) == (new.rule, new.instances)
    others = np.zeros(len(groups), np.bool_) if same else senders != recipients
    parts = _NONE.astype(np.int32)
    return Handover(_NONE, parts, parts, groups[others], senders[others], recipients[others])


def _owners_of(owners: KeyOwners, codes: Codes) -> Parts:
    """Return the owner of each key of a table, told by its code."""
    found = owners.by_group(codes)
    if owners.table is not None:
        parts = owners.table.find_codes(codes, owners.seed)
        found = np.where(parts == ABSENT, found, parts)
    return found
