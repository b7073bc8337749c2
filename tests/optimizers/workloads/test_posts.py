"""The streams of posts: equal for equal seeds, skewed, drifting, or without any correlation."""

import numpy as np
import pyarrow as pa
import pytest

from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.workloads import workload

POSTS = ("trending", "shuffled")


def columns(batch):
    return [batch["posts"].column(name).to_numpy(zero_copy_only=False) for name in ("place", "tag")]


def known_share(learned, asked):
    """Which share of some posts have a place and a tag that came together in others."""
    known = set(zip(*columns(learned), strict=True))
    pairs = list(zip(*columns(asked), strict=True))
    return sum(pair in known for pair in pairs) / len(pairs)


@pytest.mark.parametrize("name", POSTS)
def test_equal_seeds_give_equal_streams_and_others_do_not(name):
    one, two = (list(workload(name).batches(3, scale=0.05, seed=4)) for _ in range(2))
    (other,) = workload(name).batches(1, scale=0.05, seed=5)

    assert one == two
    assert one[0] != other
    assert one[0] != one[1]


@pytest.mark.parametrize("name", POSTS)
def test_a_longer_stream_begins_like_a_shorter_one(name):
    longer = list(workload(name).batches(3, scale=0.02))

    assert longer[:2] == list(workload(name).batches(2, scale=0.02))


@pytest.mark.parametrize("name", POSTS)
def test_a_stream_is_the_same_on_every_machine(name):
    (batch,) = workload(name).batches(1, scale=0.002)
    first = {"trending": ["place14", "#tag53"], "shuffled": ["place14", "#tag41"]}

    assert len(batch["posts"]) == 200
    assert pa.schema([("place", pa.string()), ("tag", pa.string())]) == batch["posts"].schema
    assert first[name] == list(batch["posts"].to_pylist()[0].values())


@pytest.mark.parametrize("name", POSTS)
def test_few_keys_have_much_of_the_load(name):
    (batch,) = workload(name).batches(1)
    for column in columns(batch):
        counts = np.sort(np.unique(column, return_counts=True)[1])[::-1]

        assert counts[: len(counts) // 100].sum() > 0.2 * counts.sum()
        assert counts[0] < 0.15 * counts.sum()  # no instance of six is lost to one key


def test_what_came_together_comes_together_again_unless_shuffled():
    trending, shuffled = (
        known_share(*workload(name).batches(2)) for name in ("trending", "shuffled")
    )

    assert trending > 2 * shuffled


def test_both_have_the_same_places_and_tags():
    one, other = (next(workload(name).batches(1)) for name in ("trending", "shuffled"))

    for here, there in zip(columns(one), columns(other), strict=True):
        assert np.array_equal(np.sort(here), np.sort(there))


def test_correlations_fade_and_new_tags_appear():
    batches = list(workload("trending").batches(30))
    near, far = known_share(batches[0], batches[1]), known_share(batches[0], batches[29])
    tags = [set(columns(batch)[1]) for batch in batches]

    assert far < 0.8 * near
    assert len(tags[29] - tags[0]) > len(tags[1] - tags[0])


def test_more_scale_is_more_tuples_and_more_keys():
    small, large = (next(workload("trending").batches(1, scale=s)) for s in (0.1, 0.5))

    assert 5 * len(small["posts"]) == len(large["posts"])
    for few, many in zip(columns(small), columns(large), strict=True):
        assert 2 * len(set(few)) < len(set(many))


def test_an_unknown_workload_is_refused_with_those_there_are():
    with pytest.raises(
        UnknownNameError, match="unknown workload 'posts'; known: 'airline', 'edits', 'rea"
    ):
        workload("posts")


@pytest.mark.parametrize(
    "given", [{"scale": 0}, {"scale": -1}, {"scale": 1e9}, {"seed": -1}, {"number": -1}]
)
def test_what_makes_no_stream_is_refused(given):
    with pytest.raises(InvalidValueError, match="out of range"):
        workload("trending").batches(**{"number": 1, **given})
