"""Evidence: what to learn from, what to try it on, and how often keys came in all epochs."""

import numpy as np
import pytest

from grouping.keygraph.evidence import Evidence, Lesson
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs

HOP, NEXT = ("a", "b"), ("b", "c")


def pairs(**counts):
    """Return pairs named by two letters: of the left and of the right key."""
    return KeyPairs(
        [name[0] for name in counts], [name[1] for name in counts], list(counts.values())
    )


def as_dict(pairs):
    """Return the count of each pair, those that stand there twice added up."""
    counts = {}
    for left, right, count in zip(pairs.left, pairs.right, pairs.counts.tolist(), strict=True):
        counts[left + right] = counts.get(left + right, 0) + count
    return counts


def test_all_pairs_of_the_last_epoch_are_seen():
    evidence = Evidence(
        {HOP: pairs(px=4, qy=1), NEXT: pairs(xz=0)}, {HOP: pairs(px=3, qx=2), NEXT: pairs()}
    )

    assert [HOP] == list(evidence.seen)
    assert {"px": 7, "qy": 1, "qx": 2} == as_dict(evidence.seen[HOP])


def test_what_was_held_out_is_what_to_try():
    taught, tested = pairs(px=4, qy=1), pairs(px=3, qx=2)
    evidence = Evidence({HOP: taught}, {HOP: tested})

    assert {HOP: taught} == evidence.taught
    assert {HOP: tested} == evidence.tested


@pytest.mark.parametrize("held_out", [{}, {HOP: pairs()}, {HOP: pairs(px=0)}])
def test_where_nothing_was_held_out_it_is_a_half_by_chance(held_out):
    whole = {"px": 400, "qy": 100}
    evidence = Evidence({HOP: pairs(**whole)}, held_out)

    taught, tested = as_dict(evidence.taught[HOP]), as_dict(evidence.tested[HOP])

    assert whole == {name: taught[name] + tested[name] for name in whole}
    assert 150 < tested["px"] < 250
    other = Evidence({HOP: pairs(**whole)}, held_out, seed=1)
    assert as_dict(other.tested[HOP]) != tested


def test_where_all_was_held_out_it_is_a_half_by_chance_too():
    evidence = Evidence({HOP: pairs(px=0)}, {HOP: pairs(px=400)})

    assert evidence.taught[HOP].total > 100
    assert 400 == evidence.taught[HOP].total + evidence.tested[HOP].total


def test_the_past_is_of_hops_that_were_seen_again():
    evidence = Evidence(
        {HOP: pairs(px=1), ("c", "d"): pairs(px=1)},
        earlier={HOP: pairs(qx=2), NEXT: pairs(xz=3), ("c", "d"): pairs(px=0)},
    )

    assert {HOP: pairs(qx=2)} == evidence.past


def test_a_lesson_is_with_the_past_or_without():
    evidence = Evidence({HOP: pairs(px=1), NEXT: pairs(xz=1)}, earlier={HOP: pairs(px=5, qx=2)})

    alone = evidence.lesson(evidence.seen, with_past=False)
    both = evidence.lesson(evidence.seen, with_past=True)

    assert evidence.seen == alone.hops
    assert {"px": 6, "qx": 2} == as_dict(both.hops[HOP])
    assert {"xz": 1} == as_dict(both.hops[NEXT])
    assert not both.counts


def test_a_lesson_becomes_a_graph_of_operators_in_order_with_keys_as_counted():
    counts = {"b": KeyCounts(["x", "y"], [30.0, 10.0])}
    lesson = Lesson({NEXT: pairs(xz=3), HOP: pairs(px=1, py=3)}, counts)

    graph = lesson.graph(["a", "b", "c"])

    assert ("a", "b", "c") == graph.names
    x, y = graph.loads[graph.span(1)][np.argsort(graph.columns[1].objects())]
    assert 3 == pytest.approx(x / y)


def ever(counted, now, before):
    evidence = Evidence({HOP: now}, earlier={HOP: before}, counts={"a": counted})
    known = evidence.lesson(evidence.seen, with_past=True).counts["a"]
    return dict(zip(known.keys.tolist(), known.counts.tolist(), strict=True))


def test_keys_whose_pairs_were_all_reported_came_as_often_as_their_pairs():
    found = ever(KeyCounts(["p", "q"], [3, 1]), pairs(px=1, py=2, qx=1), pairs(px=8, qy=0.5))

    assert {"p": 11, "q": 1.5} == pytest.approx(found)


def test_keys_came_before_as_much_more_often_than_their_pairs_tell_as_in_the_last_epoch():
    found = ever(KeyCounts(["p", "q"], [40, 2]), pairs(px=10, qx=1), pairs(px=5, qx=5))

    assert {"p": 40 + 20, "q": 2 + 10} == pytest.approx(found)


def test_keys_that_no_pair_of_the_last_epoch_tells_of_came_as_counted_besides():
    found = ever(KeyCounts(["p", "q", "r", "s"], [4, 6, 7, 0]), pairs(px=4), pairs(qx=3, sx=2))

    assert {"p": 4, "q": 9, "r": 7, "s": 2} == pytest.approx(found)


def test_without_the_past_keys_came_as_often_as_in_the_last_epoch():
    counts = {"a": KeyCounts(["p"], [9.0]), "z": KeyCounts(["p"], [1.0])}
    evidence = Evidence({HOP: pairs(px=1)}, earlier={HOP: pairs(px=1)}, counts=counts)
    young = Evidence({HOP: pairs(px=1)}, counts=counts)

    assert counts == evidence.lesson(evidence.seen, with_past=False).counts
    assert counts == young.lesson(young.seen, with_past=True).counts
    # Of an operator without pairs there is no more to know.
    assert counts["z"] == evidence.lesson(evidence.seen, with_past=True).counts["z"]


def test_counts_of_keys_of_another_kind_are_left_for_the_graph_to_refuse():
    counted = KeyCounts([1, 2], [5.0, 6.0])
    evidence = Evidence({HOP: pairs(px=1)}, earlier={HOP: pairs(px=1)}, counts={"a": counted})

    assert counted == evidence.lesson(evidence.seen, with_past=True).counts["a"]
