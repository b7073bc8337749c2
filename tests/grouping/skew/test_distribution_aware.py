"""Distribution-aware key grouping: heavy keys by name, others by the cell, evenly."""

from collections import Counter

import numpy as np
import pytest

from grouping.groupings import RoutingTable
from grouping.hashing import hash_parts
from grouping.skew.distribution_aware import DistributionAware, distribution_aware
from sketches.errors import EmptySketchError, InvalidValueError
from sketches.space_saving import SpaceSaving

TABLE = RoutingTable([0, 1, 2, 7], [3, 3, 0, 4], 5)


def skewed(size, *, exponent=1.4, seed=3, distinct=20_000):
    """Keys by Zipf's law, in an order that says nothing about how frequent they are."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, distinct + 1) ** -exponent
    ranks = rng.choice(distinct, size, p=weights / weights.sum())
    return rng.permutation(distinct)[ranks]


def sketch_of(keys, capacity=4_000):
    sketch = SpaceSaving(capacity)
    sketch.update(keys)
    return sketch


@pytest.mark.parametrize("instances", [2, 6, 20])
def test_heavy_keys_and_cells_together_balance_what_one_owner_can(instances):
    sample, later = skewed(60_000, exponent=1.0, seed=4), skewed(60_000, exponent=1.0, seed=4)
    counts = Counter(later.tolist())
    grouping = distribution_aware(sketch_of(sample), instances)

    loads = np.bincount(grouping.router(instances).route(len(later), later), minlength=instances)
    hashed = np.bincount(hash_parts(later, instances), minlength=instances)

    floor = max(1, counts.most_common(1)[0][1] * instances / len(later))
    # Cells are a tenth of an instance, and dealt out last the smallest fill up what is left.
    assert loads.max() / loads.mean() <= 1.05 * floor
    assert loads.max() < hashed.max()


@pytest.mark.parametrize(("threshold", "share"), [(0.03, 0.03), (None, 0.01)])
def test_every_heavy_key_is_placed_by_name_and_no_other(threshold, share):
    keys = skewed(50_000)
    counts = Counter(keys.tolist())
    grouping = distribution_aware(sketch_of(keys, 30_000), 10, threshold=threshold)

    heavy = {key for key, count in counts.items() if count >= share * len(keys)}
    assert heavy == set(grouping.table.keys.tolist())
    assert 100 == len(grouping.cells)


def test_cells_of_which_nothing_is_known_are_dealt_out_evenly():
    assert [7] * 10 == np.bincount(
        distribution_aware(sketch_of(range(1_000_000), 9), 10, cells_per_instance=7).cells
    ).tolist()


def test_light_keys_go_where_their_cell_is():
    keys = skewed(50_000)
    grouping = distribution_aware(sketch_of(keys), 10)
    known = set(grouping.table.keys.tolist())
    light = [key for key in range(20_000) if key not in known]

    expected = grouping.cells[hash_parts(light, 100)]

    assert expected.tolist() == grouping.assign(light).tolist()
    assert grouping.table.parts.tolist() == grouping.assign(grouping.table.keys).tolist()


def test_the_same_sketch_gives_the_same_grouping():
    keys = skewed(50_000)
    first, second = (distribution_aware(sketch_of(keys), 10) for _ in range(2))

    assert first == second
    assert first != distribution_aware(sketch_of(keys), 10, cells_per_instance=11)
    assert first != distribution_aware(sketch_of(keys), 11)
    assert first != first.table


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"instances": 0}, "instances=0"),
        ({"threshold": 0}, "threshold=0"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"cells_per_instance": 0}, "cells_per_instance=0"),
        ({"cells_per_instance": 1 << 31}, "cells="),
        ({"sketch": None}, "None is not a SpaceSaving"),
    ],
)
def test_nothing_is_learned_by_wrong_numbers(options, words):
    sketch = options.pop("sketch", sketch_of([1]))
    with pytest.raises(InvalidValueError, match=words):
        distribution_aware(sketch, **{"instances": 3, **options})


def test_nothing_is_learned_from_an_empty_sketch():
    with pytest.raises(EmptySketchError, match="has seen no key; update it"):
        distribution_aware(SpaceSaving(9), 3)


@pytest.mark.parametrize(
    ("table", "cells", "words"),
    [
        (None, [0], "table=None"),
        (TABLE, [], "cells of shape (0,)"),
        (TABLE, [[0]], "cells of shape (1, 1)"),
        (TABLE, [0.5], "type float64"),
        (TABLE, [0, 5], "cells[1]=5 is not an instance; give numbers from 0 to 4"),
        (TABLE, [-1], "cells[0]=-1"),
    ],
)
def test_cells_are_owned_by_instances(table, cells, words):
    with pytest.raises(InvalidValueError) as caught:
        DistributionAware(table, cells)

    assert words in str(caught.value)


def test_cells_do_not_change():
    cells = np.array([0, 1])
    grouping = DistributionAware(TABLE, cells)
    cells[:] = 4

    assert [0, 1] == grouping.cells.tolist()
    assert not grouping.cells.flags.writeable
    assert "DistributionAware(4 heavy keys, 2 cells, instances=5)" == repr(grouping)
