"""Sketches of Apache DataSketches behind the five methods that the suite for sketches asks for."""

from copy import copy

from datasketches import count_min_sketch, frequent_strings_sketch

from sketches.checks import weights as checked
from sketches.errors import MergeError
from sketches.keys import as_keys


def rows(keys, weights):
    column = as_keys(keys)
    return zip(column.objects().tolist(), checked("weights", weights, len(column)), strict=True)


class TheirCountMin:
    def __init__(self, engine=None):
        self.engine = count_min_sketch(3, 16) if engine is None else engine

    def update(self, keys, weights):
        for key, weight in rows(keys, weights):
            self.engine.update(key, weight)

    def estimate(self, keys):
        return [self.engine.get_estimate(key) for key in as_keys(keys).objects().tolist()]

    def __or__(self, other):
        merged = type(self)(copy(self.engine))
        try:
            merged.engine.merge(copy(other.engine))
        except ValueError as error:
            raise MergeError(f"{error}; merge sketches of one size and seed") from error
        return merged

    def to_bytes(self):
        return self.engine.serialize()

    @classmethod
    def from_bytes(cls, data):
        return cls(count_min_sketch.deserialize(data))


class TheirFrequentItems:
    def __init__(self, engine=None):
        self.engine = frequent_strings_sketch(3) if engine is None else engine

    def update(self, keys, weights):
        for key, weight in rows(keys, weights):
            self.engine.update(key, int(weight))

    def estimate(self, keys):
        return [self.engine.get_upper_bound(key) for key in as_keys(keys).objects().tolist()]

    def __or__(self, other):
        merged = type(self)(copy(self.engine))
        merged.engine.merge(copy(other.engine))
        return merged

    def to_bytes(self):
        return self.engine.serialize()

    @classmethod
    def from_bytes(cls, data):
        return cls(frequent_strings_sketch.deserialize(data))
