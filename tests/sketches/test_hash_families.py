"""The hash against families of keys that weak hashes take for one another.

A family passes if no more keys meet than chance lets meet: in all 64 bits of their places, which
is never here, and in either half of them. tests/hash_families.py tries it with many more keys.
"""

import numpy as np
import pytest
from hash_families import (
    KINDS,
    allowed,
    avalanche,
    beyond_chance,
    binary,
    digest_of,
    expected,
    families,
    half_mixed,
    integers,
    number_pairs,
    placed,
    written,
)

from sketches.keys import as_keys, mix
from sketches.mixing import constants

COUNT = 50_000
ORDERS = "ten days and digits at 9, 11 and 15"
GRID = "letters at 7, 11, 15"


@pytest.mark.parametrize("seed", [0, 7])
def test_no_family_meets_more_often_than_chance_has_it(seed):
    sizes, found = {}, {}
    for name, keys in families(COUNT):
        places = placed(keys, seed)
        sizes[name] = len(places)
        found[name] = beyond_chance(places)

    assert {} == {name: wrong for name, wrong in found.items() if wrong}
    assert len(found) > 60
    assert min(size for name, size in sizes.items() if name != "nothing but zeros") > 15_000


def test_families_accept_a_good_hash_and_refuse_the_old_one():
    some = {name: keys for name, keys in families(COUNT) if name in {ORDERS, GRID}}

    for keys in some.values():
        assert [] == beyond_chance(digest_of(keys))
        assert [] == beyond_chance(placed(keys))
        assert any("all bits" in wrong for wrong in beyond_chance(half_mixed(keys)))


def test_a_million_orders_of_ten_days_are_a_million_keys():
    days, numbers = (cells.ravel() for cells in np.indices((10, 100_000)))
    cells = np.concatenate([written(20_200_220 + days, 8), written(numbers, 8)], axis=1)
    orders = binary(cells)

    assert 1_000_000 == len(np.unique(as_keys(orders).codes))


@pytest.mark.parametrize("size", [3, 8, 9, 16, 24])
def test_each_bit_of_a_key_changes_each_bit_of_its_place_half_the_time(size):
    samples = 4000
    # Each share has a deviation of 1 / sqrt(samples) by chance; six of them are beyond it.
    assert avalanche(size, samples) < 6 / samples**0.5
    if size > 8:
        assert avalanche(size, samples, half_mixed) < 6 / samples**0.5  # it mixes single bits well


@pytest.mark.parametrize("kind", KINDS)
def test_so_does_each_bit_of_numbers_and_of_both_sides_of_pairs(kind):
    size, made = KINDS[kind]
    samples = 20_000

    assert avalanche(size, samples, made=made) < 6 / samples**0.5


def test_an_avalanche_sees_one_side_or_one_bit_that_is_not_mixed():
    def one_side(keys):
        return placed(keys.left)

    def one_bit(keys):
        return placed(keys & ~np.int64(1))

    assert avalanche(16, 500, one_side, number_pairs) == 1
    assert avalanche(8, 500, one_bit, integers) == 1


@pytest.mark.parametrize(
    "keys", [np.arange(300), [f"key {n}" for n in range(300)]], ids=["int", "str"]
)
def test_one_seed_tells_nothing_about_another(keys):
    seeds = [*range(1, 400), *(1 << n for n in range(9, 63))]
    places = np.array([placed(keys, seed) for seed in seeds])

    assert [] == beyond_chance(places.ravel())
    differences = np.bitwise_count(places[1:] ^ places[:-1])
    assert abs(differences.mean() - 32) < 6 * 4 / differences.size**0.5  # the deviation is 4


def test_twins_that_were_made_for_one_seed_are_none_by_another():
    random = np.random.default_rng(5)
    first, other, last = (random.integers(0, 1 << 63, 2000, dtype=np.uint64) for _ in range(3))
    # After the first word the codes differ by so much; the second word makes up for it.
    begun = as_keys(binary(first.view(np.uint8).reshape(-1, 8))).codes
    start = as_keys(binary(np.zeros((1, 16), np.uint8)))  # of the length that both will have
    begin = unmixed(unmixed(start.codes))
    twin = last ^ mix(first ^ begin) ^ mix(other ^ begin)
    one, two = (
        binary(np.stack(words, axis=1).view(np.uint8)) for words in ((first, last), (other, twin))
    )

    assert len(begun) == len(first)
    assert np.array_equal(as_keys(one).codes, as_keys(two).codes)
    for seed in range(1, 50):
        assert not (as_keys(one, seed=seed).codes == as_keys(two, seed=seed).codes).any()


def unmixed(codes):
    """Undo `mix`."""
    first, second = (np.uint64(pow(int(f), -1, 1 << 64)) for f in constants(0).multipliers)
    codes = codes ^ (codes >> np.uint64(31)) ^ (codes >> np.uint64(62))
    codes *= second
    codes ^= (codes >> np.uint64(27)) ^ (codes >> np.uint64(54))
    codes *= first
    return codes ^ (codes >> np.uint64(30)) ^ (codes >> np.uint64(60))


def test_chance_is_what_random_numbers_do():
    random = np.random.default_rng(2)
    for bits, count in ((32, 1_000_000), (20, 100_000)):
        drawn = random.integers(0, 1 << bits, count)
        met = count - len(np.unique(drawn))
        assert abs(met - expected(count, bits)) < 6 * expected(count, bits) ** 0.5
        assert met < allowed(count, bits)
