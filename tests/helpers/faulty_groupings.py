"""Groupings whose routers have one fault each, for tests of the suite that must find it."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from grouping.grouping import Grouping
from grouping.hashing import hash_parts
from grouping.key_batch import KeyBatch
from grouping.routers import KeyRouter, OwnerRouter, RoundRobinRouter, Router
from sketches.errors import InvalidValueError


def named(cls):
    """Give a grouping its place for a kind, as those outside Penstock have it."""
    cls.kind = f"{cls.__module__}:{cls.__name__}"
    return cls


class ByRule(Router):
    """Routes each batch by a function of its rows, its keys and what it remembers."""

    def __init__(self, instances, rule, *, start=0):
        super().__init__(instances)
        self.rule, self.routed, self.start = rule, 0, start

    def route(self, rows, keys=None):
        RoundRobinRouter(self.instances, among=[0]).route(rows)  # refuses what is no number
        parts = self.rule(self, rows, keys)
        self.routed += rows
        return parts


def in_turn(router, rows, keys):
    return ((router.start + router.routed + np.arange(rows)) % router.instances).astype(np.int32)


@dataclass(frozen=True)
class Dealt(Grouping):
    """Deals tuples out in turn by a rule; the base of those with a fault in it."""

    def _router(self, instances, sender, local):
        return ByRule(instances, type(self).rule, start=sender)


@named
class Right(Dealt):
    rule = staticmethod(in_turn)


@named
class BeginsAgainWithEachBatch(Dealt):
    @staticmethod
    def rule(router, rows, keys):
        return (np.arange(rows) % router.instances).astype(np.int32)


@named
class OneTooFar(Dealt):
    @staticmethod
    def rule(router, rows, keys):
        return in_turn(router, rows, keys) + 1


@named
class OneTooFew(Dealt):
    @staticmethod
    def rule(router, rows, keys):
        return in_turn(router, rows, keys)[:300]


@named
class Fractions(Dealt):
    @staticmethod
    def rule(router, rows, keys):
        return in_turn(router, rows, keys).astype(np.float64)


@named
class CountsEmptyBatches(Dealt):
    @staticmethod
    def rule(router, rows, keys):
        parts = in_turn(router, rows, keys)
        router.routed += rows == 0
        return parts


@named
class AtRandom(Dealt):
    @staticmethod
    def rule(router, rows, keys):
        return np.random.default_rng().integers(0, router.instances, rows, dtype=np.int32)


@named
class OneBuffer(Dealt):
    buffer = np.zeros(1 << 16, dtype=np.int32)

    @staticmethod
    def rule(router, rows, keys):
        part = OneBuffer.buffer[:rows]
        part[:] = in_turn(router, rows, keys)
        return part


@named
class Peeks(Dealt):
    """Needs no key, and goes by them where there are some."""

    @staticmethod
    def rule(router, rows, keys):
        parts = in_turn(router, rows, keys)
        return parts if keys is None else parts[::-1].copy()


@named
class TakesAnyRows(Dealt):
    def _router(self, instances, sender, local):
        class Careless(RoundRobinRouter):
            def route(self, rows, keys=None):
                return super().route(int(abs(rows or 0)) % (1 << 20), keys)

        return Careless(instances, among=range(instances), start=sender)


@named
class OneTotal(Dealt):
    """Adds up in one place what all its routers have sent."""

    sent = [0]  # noqa: RUF012  # the fault

    @staticmethod
    def rule(router, rows, keys):
        parts = (OneTotal.sent[0] + np.arange(rows)) % router.instances
        OneTotal.sent[0] += rows
        return parts.astype(np.int32)


@named
@dataclass(frozen=True)
class ForgetsAField(Dealt):
    step: int = 1
    rule = staticmethod(in_turn)


@named
@dataclass(frozen=True)
class TakesAnyField(Dealt):
    rule = staticmethod(in_turn)

    @classmethod
    def from_dict(cls, fields):
        return cls()


@named
@dataclass(frozen=True)
class HoldsAFunction(Dealt):
    first: object = None
    rule = staticmethod(in_turn)

    def __post_init__(self):
        object.__setattr__(self, "first", lambda: 0)

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return 1

    def __deepcopy__(self, memo):
        return self

    @classmethod
    def from_dict(cls, fields):
        if fields:
            raise InvalidValueError(f"{fields} are none of mine; give none")
        return cls()


@named
@dataclass(frozen=True, eq=False)
class EqualToItselfOnly(Dealt):
    rule = staticmethod(in_turn)
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@named
@dataclass(frozen=True)
class OfAnotherHash(Dealt):
    rule = staticmethod(in_turn)

    def __hash__(self):
        return id(self)


@named
@dataclass(frozen=True)
class Counts(Dealt):
    """Remembers in itself how many routers it made."""

    made: int = 0
    rule = staticmethod(in_turn)

    def to_dict(self):
        return {"made": self.made}

    def _router(self, instances, sender, local):
        def rule(router, rows, keys):
            object.__setattr__(self, "made", self.made + 1)
            return in_turn(router, rows, keys)

        return ByRule(instances, rule, start=sender)


@dataclass(frozen=True)
class Owned(Grouping):
    """Sends each key to the part that a function of the keys says; the base of faulty ones."""

    one_owner = True
    needs_key = True

    def _router(self, instances, sender, local):
        return OwnerRouter(instances, partial(type(self).assign, instances, sender))


@named
class ByBuiltinHash(Owned):
    @staticmethod
    def assign(instances, sender, keys):
        codes = [hash(str(key)) for key in keys.spread(keys.column.objects())]
        return np.array([code % instances for code in codes], dtype=np.int32)


@named
class AnOwnerForEachSender(Owned):
    @staticmethod
    def assign(instances, sender, keys):
        return (hash_parts(keys, instances) + sender) % instances


@named
class ByTheWord(Owned):
    """Takes the words of a dictionary for the rows."""

    @staticmethod
    def assign(instances, sender, keys):
        if keys.places is None:
            return hash_parts(keys, instances)
        return (keys.places % instances).astype(np.int32)


@named
class NeedsNoneItSays(Owned):
    one_owner = False
    needs_key = False
    assign = staticmethod(lambda instances, sender, keys: hash_parts(keys, instances))


@named
class OwnsWithoutKeys(Owned):
    needs_key = False
    assign = staticmethod(lambda instances, sender, keys: hash_parts(keys, instances))

    def _router(self, instances, sender, local):
        return RoundRobinRouter(instances, among=[0])


class OfAnyLength(KeyRouter):
    """Reads keys, and cuts or repeats them to the rows it is told of."""

    def route(self, rows, keys=None):
        RoundRobinRouter(self.instances, among=[0]).route(rows)
        if keys is None:
            return super().route(rows, keys)
        batch = KeyBatch.read(keys)
        return np.resize(self._route(batch), rows) if len(batch) else np.zeros(rows, dtype=np.int32)

    def _route(self, batch):
        return hash_parts(batch, self.instances)


@named
class TakesAnyKeys(Owned):
    def _router(self, instances, sender, local):
        return OfAnyLength(instances)


class RefusesInItsOwnWay(KeyRouter):
    def route(self, rows, keys=None):
        if keys is not None and not isinstance(rows, bool) and isinstance(rows, int):
            try:
                KeyBatch.read(keys)
            except TypeError as error:
                raise KeyError(str(error)) from error
        return super().route(rows, keys)

    def _route(self, batch):
        return hash_parts(batch, self.instances)


@named
class RefusesByForeignErrors(Owned):
    def _router(self, instances, sender, local):
        return RefusesInItsOwnWay(instances)


class CountsWhatItRefuses(RoundRobinRouter):
    def route(self, rows, keys=None):
        try:
            return super().route(rows, keys)
        except InvalidValueError:
            self._next = (self._next + 1) % self.instances
            raise


@named
class CountsRefusedBatches(Dealt):
    def _router(self, instances, sender, local):
        return CountsWhatItRefuses(instances, among=range(instances), start=sender)


class LoadsTheOther(KeyRouter):
    """Chooses between two by load, and counts each tuple at the one it was not sent to."""

    def __init__(self, instances):
        super().__init__(instances)
        self.loads = [0] * instances

    def _route(self, batch):
        first, second = (hash_parts(batch, self.instances, choice=c).tolist() for c in (0, 1))
        chosen = []
        for one, other in zip(first, second, strict=True):
            part, left = (one, other) if self.loads[one] <= self.loads[other] else (other, one)
            self.loads[left] += 1
            chosen.append(part)
        return np.array(chosen, dtype=np.int32)


@named
class CountsTheOtherLoad(Grouping):
    needs_key = True

    def _router(self, instances, sender, local):
        return LoadsTheOther(instances)


@named
class MadeForAnyNumber(Dealt):
    """Says it was made for four, and takes any number."""

    rule = staticmethod(in_turn)

    @property
    def instances(self):
        return 4

    def router(self, instances, *, sender=0, local=()):
        return ByRule(instances, in_turn, start=sender)
