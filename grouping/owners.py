"""The owners of keys: which instance owns which key of an operator."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.grouping import Grouping
from grouping.hashing import code_parts, key_places
from grouping.key_batch import KeyBatch
from grouping.key_slots import ABSENT
from grouping.key_table import KeyTable
from grouping.routing_table import GroupTable
from sketches.arrays import Codes, Parts
from sketches.errors import InvalidValueError
from sketches.keys import KeyColumn
from sketches.values import ArrayValue, protect

_NONE: Codes = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class KeyOwners:
    """The owner of each key of one operator: the instance that holds the key's group.

    The group is named in a table, or else chosen by hash. An older kind of table names the instance
    itself.

    >>> owners = KeyOwners((0, 0, 1, 1), GroupTable(["Asia"], [3], 4))
    >>> owners.group_of(["Asia", "Oceania", "Europe"]).tolist()
    [3, 0, 1]
    >>> owners.assign(["Asia", "Oceania", "Europe"]).tolist()
    [1, 0, 0]
    >>> from grouping.routing_table import RoutingTable
    >>> KeyOwners((0, 0, 1, 1), RoutingTable(["Europe"], [1], 2)).assign(["Europe"]).tolist()
    [1]

    Attributes:
        groups: the instance of each key group.
        table: the keys with a named group, or a named owner; None if there are none.
        rule: a grouping of another kind, which chooses the owner of each key.
        parallelism: how many instances there are, if more than the others name.
        seed: of the hash by which keys fall into groups.
    """

    groups: tuple[int, ...]
    table: KeyTable | None = None
    rule: Grouping | None = None
    parallelism: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        table = self.table
        if isinstance(table, GroupTable) and table.key_groups != len(self.groups):
            raise InvalidValueError(
                f"a table of {table.key_groups} key groups does not fit an operator that has "
                f"{len(self.groups)}; make it for {len(self.groups)}"
            )

    @property
    def instances(self) -> int:
        """How many instances there are; some may own nothing."""
        named = None if self.table is None else self.table.instances
        return max(named or 0, self.parallelism, 1 + max(self.groups))

    def group_of(self, keys: Any) -> Parts:
        """Return the key group of each key, by which statistics are kept.

        If a rule or a table of instances decides the owner of a key, this is its group by hash, and
        the group may have another owner.
        """
        batch = KeyBatch.read(keys, self.seed)
        column, table = batch.column, self.table
        if self.rule is not None or not isinstance(table, GroupTable) or not len(table):
            return batch.spread(self._hashed(column.codes))
        return batch.spread(_completed(table.look_up(column), column.codes, self._hashed))

    def assign(self, keys: Any) -> Parts:
        """Return the owner of each key."""
        batch = KeyBatch.read(keys, self.seed)
        if self.rule is not None:
            return self.rule.router(self.instances).route(len(batch), batch)
        if self.table is not None and len(self.table):
            self.table.check_kind(batch.column)
        return batch.spread(self.of_column(batch.column))

    def assign_by_group(self, keys: Any) -> tuple[Parts, Parts]:
        """Return the owner of each key and its group: `assign` and `group_of`, hashed once."""
        batch, table = KeyBatch.read(keys, self.seed), self.table
        by_instance = table is not None and not isinstance(table, GroupTable) and len(table)
        if self.rule is not None or by_instance:
            return self.assign(batch), self.group_of(batch)
        if table is not None and len(table):
            table.check_kind(batch.column)
        groups = self.group_of(batch)
        return self._groups[groups], groups

    def of_column(self, keys: KeyColumn) -> Parts:
        """Return each key's owner by table and groups; the table has no keys of other kinds."""
        if self.table is None or not len(self.table):
            return self.by_group(keys.codes)
        return _completed(self.named(keys), keys.codes, self.by_group)

    def named(self, keys: KeyColumn) -> Parts:
        """Return the owner that the table names for each key; `ABSENT` where it names none."""
        if self.table is None or self.table.key_kind != keys.kind:
            return np.full(len(keys), ABSENT, dtype=np.int32)
        parts = self.table.look_up(keys)
        if isinstance(self.table, GroupTable):
            known = np.flatnonzero(parts != ABSENT)
            parts[known] = self._groups[parts[known]]
        return parts

    def by_group(self, codes: Codes) -> Parts:
        """Return the owner of each key by its code, as if the table did not name it."""
        chosen: Parts = self._groups[self._hashed(codes)]
        return chosen

    def takes(self, keys: KeyColumn) -> bool:
        """Return whether keys are of the kind that the table names, if there is one."""
        return self.table is None or self.table.key_kind in (None, keys.kind)

    def groups_on(self, instances: Parts, keys: KeyColumn) -> Parts:
        """Return a key group for each key that is to go to an instance: one of that instance.

        A key keeps its group if that is on the instance; others are spread over the instance's
        groups by their hash. An instance without groups cannot have keys: those stay where they
        are.
        """
        chosen = self.group_of(keys)
        elsewhere = np.flatnonzero(self._groups[chosen] != instances)
        for instance in np.unique(instances[elsewhere]).tolist():
            there = np.flatnonzero(self._groups == instance).astype(np.int32)
            if len(there):
                rows = elsewhere[instances[elsewhere] == instance]
                codes = keys.seeded(self.seed).codes[rows]
                chosen[rows] = there[code_parts(codes, len(there), choice=1, seed=self.seed)]
        return chosen

    def groups_followed(self, keys: KeyColumn) -> Parts:
        """Return the key group that each key goes with; `ABSENT` where a table names its owner."""
        groups = self._hashed(keys.codes)
        if self.table is not None and self.table.key_kind == keys.kind:
            named = self.table.look_up(keys)
            known = np.flatnonzero(named != ABSENT)
            groups[known] = named[known] if isinstance(self.table, GroupTable) else ABSENT
        return groups

    @cached_property
    def regrouped_places(self) -> Codes:
        """The places on the ring of keys that may be in another group than that of their hash."""
        if self.rule is not None or not isinstance(self.table, GroupTable):
            return _NONE
        return np.unique(key_places(self.table.codes_by(self.seed), self.seed))

    def _hashed(self, codes: Codes) -> Parts:
        return code_parts(codes, len(self.groups), seed=self.seed)

    @cached_property
    def _groups(self) -> Parts:
        return np.array(self.groups, dtype=np.int32)


def _completed(parts: Parts, codes: Codes, others: Callable[[Codes], Parts]) -> Parts:
    """Fill the places without a named part from `others`."""
    unknown = np.flatnonzero(parts == ABSENT)
    if len(unknown):
        parts[unknown] = others(codes[unknown])
    return parts


@dataclass(frozen=True, eq=False)
class Handover(ArrayValue):
    """The keys and groups that change hands, as far as that is known without the state.

    Attributes:
        codes: keys that are named in a table before or after, and change their owner, by their
            codes of the owners' seed; ascending. Two keys may have one code, so what lies there
            is to be asked for its owner.
        senders: the present owner of each.
        recipients: the next owner of each.
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
        protect(self, "codes", "senders", "recipients", "groups", "from_instances", "to_instances")

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

    def given(self, instance: int) -> tuple[Codes, NDArray[np.int32]]:
        """Return the named keys and the key groups that an instance is to give away."""
        return self.codes[self.senders == instance], self.groups[self.from_instances == instance]


def handover(old: KeyOwners, new: KeyOwners) -> Handover:
    """Return the handover from one set of owners to another of the same key groups.

    A rule decides key by key only, so each instance looks through the state of all others.
    """
    if old.rule is not None or new.rule is not None:
        return _anything(old, new)
    codes, before, after = _changed(old, new)
    first, second = np.array(old.groups, np.int32), np.array(new.groups, np.int32)
    groups = np.flatnonzero(first != second).astype(np.int32)
    return Handover(codes, before, after, groups, first[groups], second[groups])


def named_in_either(old: KeyOwners, new: KeyOwners) -> list[KeyColumn]:
    """Return the keys that the table of either names, each once, by the hash of their seed."""
    found = [] if old.table is None else [old.table.column.seeded(old.seed)]
    if new.table is not None:
        keys = new.table.column.seeded(new.seed)
        found.append(keys.take(np.flatnonzero(old.named(keys) == ABSENT)))
    return found


def _anything(old: KeyOwners, new: KeyOwners) -> Handover:
    """Return a handover from every instance to every other, unless nothing changes."""
    ranges = map(np.arange, (len(old.groups), old.instances, new.instances))
    groups, senders, recipients = (cells.ravel().astype(np.int32) for cells in np.meshgrid(*ranges))
    same = (old.rule, old.instances) == (new.rule, new.instances)
    others = np.zeros(len(groups), np.bool_) if same else senders != recipients
    parts = _NONE.astype(np.int32)
    return Handover(_NONE, parts, parts, groups[others], senders[others], recipients[others])


def _changed(old: KeyOwners, new: KeyOwners) -> tuple[Codes, Parts, Parts]:
    """Return the codes of the keys of both tables that change their owner, and both owners."""
    found = []
    for keys in named_in_either(old, new):
        mine, theirs = old.of_column(keys), new.of_column(keys)
        moves = np.flatnonzero(mine != theirs)
        found.append((keys.codes[moves], mine[moves], theirs[moves]))
    if not found:
        return _NONE, _NONE.astype(np.int32), _NONE.astype(np.int32)
    codes, before, after = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((after, before, codes))
    return codes[order], before[order], after[order]
