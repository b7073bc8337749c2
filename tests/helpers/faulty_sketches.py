"""An exact sketch, and others with one fault each, for tests of the suite that must find it."""

import json
import math
import zlib
from typing import ClassVar

from sketches.checks import weights as checked
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError, MergeError
from sketches.keys import as_keys


def read(keys):
    return as_keys(keys).objects().tolist()


class Exact:
    """Keeps the weight of each key."""

    exactly: ClassVar = True

    def __init__(self, size=1):
        self.size, self.sums = size, {}

    def update(self, keys, weights):
        keys = read(keys)
        for key, weight in zip(keys, checked("weights", weights, len(keys)).tolist(), strict=True):
            self.count(key, weight)

    def count(self, key, weight):
        self.sums[key] = self.sums.get(key, 0.0) + weight

    def estimate(self, keys):
        return [self.answer(key) for key in read(keys)]

    def answer(self, key):
        return self.sums.get(key, 0.0)

    def __or__(self, other):
        if self.size != other.size:
            raise MergeError(f"sizes {self.size} and {other.size} differ; merge those of one size")
        merged = self.from_bytes(self.to_bytes())
        for key, weight in other.sums.items():
            merged.sums[key] = merged.sums.get(key, 0.0) + weight
        return merged

    def state(self):
        return [self.size, sorted(self.sums.items())]

    def take(self, state):
        self.size, sums = state
        self.sums = dict(sums)

    def to_bytes(self):
        body = json.dumps(self.state()).encode()
        return body + zlib.crc32(body).to_bytes(4, "big")

    @classmethod
    def from_bytes(cls, data):
        if not isinstance(data, bytes) or zlib.crc32(data[:-4]).to_bytes(4, "big") != data[-4:]:
            raise CorruptDataError("the checksum does not hold; write them again")
        sketch = cls()
        try:
            sketch.take(json.loads(data[:-4]))
        except ValueError as error:
            raise CorruptDataError(f"{error}; write them again") from error
        return sketch


class Halves(Exact):
    def answer(self, key):
        return super().answer(key) / 2


class SaysTooMuch(Exact):
    def least(self, key):
        return self.answer(key) + 1


class AddsATenth(Exact):
    def answer(self, key):
        return super().answer(key) + sum(self.sums.values()) / 10


class FavoursTheLast(Exact):
    """Adds one to the key that was counted last."""

    last: ClassVar = None

    def count(self, key, weight):
        super().count(key, weight)
        self.last = key

    def answer(self, key):
        return super().answer(key) + (key == self.last)

    def state(self):
        return [*super().state(), self.last]

    def take(self, state):
        *state, self.last = state
        super().take(state)


class CountsUpdates(Exact):
    """Adds one for each update."""

    updates = 0

    def update(self, keys, weights):
        super().update(keys, weights)
        self.updates += 1

    def answer(self, key):
        return super().answer(key) + self.updates

    def state(self):
        return [*super().state(), self.updates]

    def take(self, state):
        *state, self.updates = state
        super().take(state)


class CountsWords(Exact):
    """Takes the numbers in a dictionary array for the keys."""

    def update(self, keys, weights):
        super().update(getattr(keys, "indices", keys), weights)


class TakesTheLarger(Exact):
    def __or__(self, other):
        merged = super().__or__(other)
        for key, weight in other.sums.items():
            merged.sums[key] = max(weight, self.sums.get(key, 0.0))
        return merged


class MergesInPlace(Exact):
    def __or__(self, other):
        self.sums = super().__or__(other).sums
        return self


class MergesAnything(Exact):
    def __or__(self, other):
        twin = self.from_bytes(other.to_bytes())
        twin.size = self.size
        return super().__or__(twin)


class WritesHalf(Exact):
    def state(self):
        size, sums = super().state()
        return [size, sums[::2]]

    def __or__(self, other):
        merged = type(self)(self.size)
        for sums in (self.sums, other.sums):
            for key, weight in sums.items():
                merged.count(key, weight)
        return merged


class CannotGoOn(Exact):
    """Counts nothing once it was read, but what it is merged with."""

    was_read = False

    def count(self, key, weight):
        if not self.was_read:
            super().count(key, weight)

    def take(self, state):
        super().take(state)
        self.was_read = bool(self.sums)


class CountsItsReadings(Exact):
    """Writes how often it was read."""

    readings = 0

    def state(self):
        return [*super().state(), self.readings]

    def take(self, state):
        *state, readings = state
        super().take(state)
        self.readings = readings + 1


class MergesBelow(TakesTheLarger):
    exactly = False


class GoesOnBelow(CannotGoOn):
    exactly = False


class NoChecksum(Exact):
    def to_bytes(self):
        return json.dumps(self.state()).encode() + b" " * 100

    @classmethod
    def from_bytes(cls, data):
        return super().from_bytes(data + zlib.crc32(data).to_bytes(4, "big")) if data else cls()


class ForeignErrors(Exact):
    @classmethod
    def from_bytes(cls, data):
        return super().from_bytes(bytes(data))


class CountsHalfABatch(Exact):
    def update(self, keys, weights):
        held = keys if isinstance(keys, list) else read(keys)
        for key, weight in zip(held, weights, strict=False):
            if key is not None and weight >= 0 and weight < math.inf:
                self.count(key, weight)
        keys = read(keys)
        checked("weights", weights, len(keys))


class TakesNegative(Exact):
    def update(self, keys, weights):
        if any(math.isnan(weight) or weight == math.inf for weight in weights):
            raise InvalidValueError("weights[1] is not finite; drop it")
        if len(weights) != len(as_keys(keys)):
            raise InvalidValueError(f"{len(keys)} keys; give one weight for each")
        for key, weight in zip(read(keys), weights, strict=True):
            self.count(key, abs(weight))


class SaysNoRemedy(Exact):
    def update(self, keys, weights):
        try:
            super().update(keys, weights)
        except InvalidKeyError as error:
            raise InvalidKeyError(str(error).partition(";")[0].partition("(")[0]) from None


class RemembersQuestions(Exact):
    asked = 0

    def answer(self, key):
        self.asked += 1
        return super().answer(key)

    def state(self):
        return [*super().state(), self.asked]

    def take(self, state):
        *state, self.asked = state
        super().take(state)


class AnswersInProportion(Exact):
    """Answers how heavy keys are compared with those asked for together."""

    def estimate(self, keys):
        answers = super().estimate(keys)
        return [answer + len(answers) for answer in answers]


class HashesWords(Exact):
    def answer(self, key):
        return super().answer(key) + hash(str(key)) % 1024
