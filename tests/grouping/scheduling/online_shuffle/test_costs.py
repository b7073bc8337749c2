"""The matrices of costs, against CostSketch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from online_shuffle_messages import CODES, SECONDS, column, shapes

from grouping.scheduling.online_shuffle.costs import EstimatedCosts, KeyPlaces, MeasuredCosts
from grouping.scheduling.online_shuffle.messages import Matrices
from sketches.cost_sketch import CostSketch
from sketches.row_hashes import RowHashes


@given(shapes, st.lists(CODES, max_size=20))
def test_a_key_has_its_cells_where_the_sketches_hash_it_to(shape, codes):
    places = KeyPlaces(**shape)

    expected = [
        [row * shape["width"] + columns for row, columns in enumerate(of_key)]
        for _, part in RowHashes(**shape).columns(column(codes).codes)
        for of_key in part.T.tolist()
    ]

    assert expected == [list(places[code]) for code in codes]


@given(shapes, st.lists(st.tuples(CODES, SECONDS), min_size=1, max_size=40), st.lists(CODES))
def test_estimates_are_those_of_the_cost_sketch(shape, tuples, unseen):
    sketch, measured = CostSketch(**shape), MeasuredCosts(**shape)
    for code, seconds in tuples:
        sketch.update(column([code]), [seconds])
    measured.measure(*zip(*tuples, strict=True))
    sent = measured.matrices(instance=3, number=8)
    estimated = EstimatedCosts(sent, KeyPlaces(**shape))

    asked = [code for code, _ in tuples] + unseen
    expected = sketch.estimate(column(asked)).tolist()

    assert expected == pytest.approx([estimated[code] for code in asked], rel=1e-12)
    assert expected == pytest.approx([estimated[code] for code in asked], rel=1e-12)
    assert (3, 8) == (sent.instance, sent.number)


def test_what_is_remembered_of_keys_stays_small_and_right(monkeypatch):
    monkeypatch.setattr("grouping.scheduling.online_shuffle.costs._MOST_KEYS", 10)
    measured = MeasuredCosts(5, 3)
    codes = list(range(200))
    measured.measure(codes, [code / 7 for code in codes])
    places = KeyPlaces(width=5, depth=3, seed=0)
    estimated = EstimatedCosts(measured.matrices(instance=0, number=1), places)

    for _ in range(2):
        assert measured.estimate(codes).tolist() == [estimated[code] for code in codes]
        assert len(estimated) <= 10
        assert len(places) <= 10


def test_a_key_that_was_never_seen_costs_the_mean_and_not_nothing():
    sent = Matrices(0, 1, counts=(2, 0), costs=(6, 0), mean=3)
    places = KeyPlaces(width=2, depth=1, seed=0)
    estimated = EstimatedCosts(sent, places)
    empty = next(code for code in range(99) if places[code] == (1,))

    assert sent.mean == estimated[empty]
