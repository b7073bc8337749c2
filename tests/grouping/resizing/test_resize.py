"""Which key groups move when operators get other numbers of instances."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.resizing import resize as resizing
from grouping.resizing.filling import GroupPairs
from grouping.resizing.resize import Resized, resize


def even(groups, instances):
    return (np.arange(groups) * instances // groups).astype(np.int32)


@st.composite
def operators(draw):
    """One to three operators, some of which get another number of instances."""
    nodes = draw(st.integers(1, 4))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        count, before, after = (draw(st.integers(1, most)) for most in (24, 5, 5))
        random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
        loads = random.exponential(size=count) if draw(st.booleans()) else np.ones(count)
        groups = random.integers(0, before, count).astype(np.int32)
        places = random.integers(0, nodes, after).astype(np.int32)
        found.append(Resized(groups, places, loads, before))
    return found


@st.composite
def traffic(draw, job):
    """Tuples between groups of some pairs of operators."""
    found = []
    for ends in combinations(range(len(job)), 2):
        random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
        rows = draw(st.integers(0, 60))
        sides = [random.integers(0, len(job[end].groups), rows) for end in ends]
        found.append(GroupPairs(ends, *sides, random.exponential(size=rows)))
    return found


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_groups_move_to_new_instances_and_from_those_that_are_gone_and_nowhere_else(data):
    job = data.draw(operators())

    after = resize(job, data.draw(traffic(job)))

    for operator, groups in zip(job, after, strict=True):
        count, before = len(operator.nodes), operator.instances
        assert ((groups >= 0) & (groups < count)).all()
        moved = groups != operator.groups
        if before <= count:
            assert (groups[moved] >= before).all()
        else:
            assert (moved == (operator.groups >= count)).all()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_instance_that_gets_groups_has_clearly_more_than_its_share(data):
    job = data.draw(operators())
    talk = data.draw(traffic(job))
    sent = [np.full(len(operator.groups), 1e-3) for operator in job]
    for one in talk:
        np.add.at(sent[one.ends[0]], one.sources, one.tuples)
        np.add.at(sent[one.ends[1]], one.targets, one.tuples)
    job = [replace(operator, loads=loads) for operator, loads in zip(job, sent, strict=True)]

    after = resize(job, talk)

    for operator, groups in zip(job, after, strict=True):
        count, heaviest = len(operator.nodes), operator.loads.max()
        share = operator.loads.sum() / count
        of_node, got = np.bincount(operator.nodes), groups != operator.groups
        held = np.bincount(operator.nodes[groups], operator.loads, len(of_node))
        for node in np.unique(operator.nodes[groups[got]]).tolist():
            home = operator.nodes[operator.groups[operator.groups < count]] == node
            before = operator.loads[operator.groups < count][home].sum()
            most = max(1.03 * share * of_node[node], heaviest, before) + heaviest
            assert held[node] <= most + 1e-6


def test_what_one_instance_lacks_is_spread_over_the_others_and_not_put_on_the_new_one():
    # Instance 0 has next to nothing and gets nothing; all traffic draws to the node of the new one.
    near = Resized(np.zeros(1, np.int32), np.array([3], np.int32), np.array([41.0]), 1)
    old = np.array([0] + [1] * 20 + [2] * 20, np.int32)
    far = Resized(old, np.array([0, 1, 2, 3], np.int32), np.ones(41), 3)
    talk = GroupPairs((0, 1), np.zeros(41, np.int64), np.arange(41), np.ones(41))

    _, after = resize([near, far], [talk])

    held = np.bincount(after, minlength=4)
    assert held[0] == 1
    assert held[3] <= 40 / 3 + 1


@given(st.integers(1, 128), st.integers(1, 20), st.integers(1, 20))
def test_without_traffic_as_few_groups_move_as_even_counts_allow(groups, before, after):
    before, after = min(before, groups), min(after, groups)
    old = even(groups, before)

    (new,) = resize([Resized(old, np.arange(after, dtype=np.int32), np.ones(groups), before)])

    counts = np.bincount(new, minlength=after)
    assert counts.max() - counts.min() <= 1
    if before <= after:
        room = np.sort(np.bincount(old, minlength=after))[::-1]
        share, more = divmod(groups, after)
        least = groups - np.minimum(room, share + (np.arange(after) < more)).sum()
        assert (new != old).sum() == least
    else:
        assert (new != old).sum() == (old >= after).sum()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(2, 8),
    st.integers(4, 10),
    st.integers(0, 1 << 30),
)
def test_groups_that_talk_to_each_other_move_together(before, after, each, seed):
    """Each group of one operator has one partner, so nothing need ever leave its node."""
    groups = before * after * each
    partner = np.arange(groups)
    order = np.random.default_rng(seed).permutation(groups)
    old = even(groups, before)
    second = np.empty(groups, dtype=np.int32)
    second[order] = old
    nodes = np.arange(after, dtype=np.int32)
    job = [Resized(of, nodes, np.ones(groups), before) for of in (old, second)]

    left, right = resize(job, [GroupPairs((0, 1), partner, order, np.ones(groups))])

    assert (left == right[order]).all()


def test_communities_of_groups_move_as_a_whole():
    """Two instances with two communities each; the third gets one that was torn, and it heals."""
    old = even(12, 2)
    of = np.array([0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1])  # the community of each group
    cells = np.argwhere(of[:, None] == of[None, :])
    talk = GroupPairs((0, 1), cells[:, 0], cells[:, 1], np.ones(len(cells)))
    job = [Resized(old, np.arange(3, dtype=np.int32), np.ones(12), 2)] * 2

    left, right = resize(job, [talk])

    assert [0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1] == left.tolist() == right.tolist()


def test_between_instances_of_one_node_it_is_load_that_counts():
    loads = np.array([3.0, 1.0, 1.0, 1.0])
    job = [Resized(np.zeros(4, np.int32), np.zeros(2, np.int32), loads, 1)] * 2
    talk = GroupPairs((0, 1), np.arange(4), np.arange(4), np.ones(4))

    for groups in resize(job, [talk]):
        assert [3.0, 3.0] == np.bincount(groups, loads).tolist()


def test_an_operator_that_is_not_resized_draws_groups_to_where_it_is():
    fixed = Resized(np.array([0, 1], np.int32), np.array([0, 1], np.int32), np.ones(2), 2)
    grown = Resized(np.zeros(4, np.int32), np.array([0, 1], np.int32), np.ones(4), 1)
    talk = GroupPairs((0, 1), np.array([0, 1, 0, 1]), np.array([0, 1, 2, 3]), np.ones(4))

    there, moved = resize([fixed, grown], [talk])

    assert [0, 1] == there.tolist()
    assert [0, 1, 0, 1] == moved.tolist()


@given(st.data())
def test_equal_questions_have_equal_answers(data):
    job = data.draw(operators())
    talk = data.draw(traffic(job))

    first, second = resize(job, talk), resize(job, talk)

    assert [groups.tolist() for groups in first] == [groups.tolist() for groups in second]


def test_of_very_many_groups_not_all_moves_are_weighed(monkeypatch):
    monkeypatch.setattr(resizing, "_MOST_CELLS", 0)
    monkeypatch.setattr(resizing, "_ByTraffic", pytest.fail)
    test_groups_that_talk_to_each_other_move_together.hypothesis.inner_test(2, 4, 4, 0)
