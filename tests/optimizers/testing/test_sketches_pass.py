"""Every sketch of ours, and those of another library, pass the suite that authors are given."""

import numpy as np
from datasketches import count_min_sketch, frequent_strings_sketch
from datasketches_adapters import TheirCountMin, TheirFrequentItems

from optimizers.testing import SketchContract
from sketches.cost_sketch import CostSketch
from sketches.count_min import CountMin
from sketches.keys import as_keys
from sketches.space_saving import SpaceSaving

WORDS = ["ü", *(f"key {number}" for number in range(12))]
NUMBERS = [0, -1, 1 << 40, *range(7, 17)]


class TestCountMin(SketchContract):
    error = (np.e / 16, np.exp(-2))

    def empty(self):
        return CountMin(16, 2)

    def unfit(self):
        return CountMin(17, 2), CountMin(16, 3), CountMin(16, 2, seed=1), SpaceSaving(4)


class TestConservativeCountMin(SketchContract):
    error = (np.e / 16, np.exp(-2))
    merges_exactly = False
    any_cut = False

    def empty(self):
        return CountMin(16, 2, conservative=True)

    def unfit(self):
        return (CountMin(16, 2),)


class TestCountMinOfDatasketches(SketchContract):
    error = (np.e / 16, np.exp(-2))

    def empty(self):
        return CountMin(16, 2, backend="datasketches")

    def unfit(self):
        return CountMin(17, 2, backend="datasketches"), CountMin(16, 2)

    def keys(self):
        return WORDS, NUMBERS


class MeanCosts(CostSketch):
    """Answers 0 where nothing was counted, as the suite asks an empty sketch as well."""

    __slots__ = ()

    def estimate(self, keys):
        return super().estimate(keys) if self.total else np.zeros(len(as_keys(keys)))


class TestMeanCosts(SketchContract):
    never_below = False

    def empty(self):
        return MeanCosts(16, 2)

    def unfit(self):
        return MeanCosts(17, 2), MeanCosts(16, 2, seed=1), MeanCosts(16, 2, exact=4)


class TestMeanCostsOfExactKeys(TestMeanCosts):
    merges_exactly = False
    any_cut = False

    def empty(self):
        return MeanCosts(16, 2, exact=3)


class Frequencies(CostSketch):
    __slots__ = ()

    def estimate(self, keys):
        return self.frequency(keys)


class TestFrequencies(SketchContract):
    def empty(self):
        return Frequencies(16, 2)

    def unfit(self):
        return Frequencies(17, 2), Frequencies(16, 2, exact=4)

    def truth(self, stream):
        keys, _ = stream
        return {key: keys.count(key) for key in keys}


class TestFrequenciesOfExactKeys(TestFrequencies):
    merges_exactly = False
    any_cut = False

    def empty(self):
        return Frequencies(16, 2, exact=3)


class TestSpaceSaving(SketchContract):
    error = (1 / 5, 0.0)
    merges_exactly = False
    any_order = False
    resumes = False

    def empty(self):
        return SpaceSaving(4, block=8)

    def unfit(self):
        return SpaceSaving(5), CountMin(16, 2)

    def at_least(self, sketch, keys):
        return sketch.bracket(list(keys))[0]


class TestSpaceSavingOfOneBlock(TestSpaceSaving):
    def empty(self):
        return SpaceSaving(4)


class TestTheirCountMin(SketchContract):
    error = (np.e / 16, np.exp(-3))
    checks_bytes = False  # it reads past the end of bytes that were cut off

    def empty(self):
        return TheirCountMin()

    def unfit(self):
        return (TheirCountMin(count_min_sketch(4, 16)), TheirCountMin(count_min_sketch(3, 17)))

    def keys(self):
        return WORDS, NUMBERS


class TestTheirFrequentItems(SketchContract):
    error = (frequent_strings_sketch.get_epsilon_for_lg_size(3), 0.0)
    merges_exactly = False
    any_order = False
    resumes = False
    same_bytes = False
    checks_bytes = False

    def empty(self):
        return TheirFrequentItems()

    def unfit(self):
        return (TheirCountMin(),)

    def keys(self):
        return (WORDS,)

    def fresh_keys(self, numbers):
        return list(map(str, numbers))

    def at_least(self, sketch, keys):
        return [sketch.engine.get_lower_bound(key) for key in keys]
