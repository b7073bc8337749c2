from fractions import Fraction

import numpy as np
import pytest
from dataflows import dataflows
from hypothesis import assume, given
from hypothesis import strategies as st

from batching.dataflow import Dataflow
from batching.errors import DataflowError, OverloadError
from batching.planner import plan_tuples
from batching.planner_published import plan_as_published
from batching.tuple_costs import Shipping


def pair(ppt, rate, *, size=100, given=1):
    return Dataflow.of(
        ["source", "sink"],
        [("source", "sink")],
        seconds=[0, ppt],
        rates=[rate, 0],
        sizes=size,
        given=[given, 1],
    )


def test_equation_2_gives_the_batch_of_a_source():
    # l_i = 1 ms, n = 5 ms, t s = 0.5 ms: b >= 5 / (1 - 0.5)
    plan = plan_as_published(pair(0.002, 1000), Shipping(0.005, 5e-6))

    assert plan.batches.tolist() == [10, 1]
    assert plan.rates.tolist() == pytest.approx([1000, 1000])


def test_no_batch_where_the_next_tuple_comes_after_the_last_is_shipped():
    plan = plan_as_published(pair(0.002, 100), Shipping(0.005, 5e-6))

    assert plan.batches.tolist() == [1, 1]


def test_equation_3_gives_what_a_source_without_end_sends_in_the_largest_batches():
    plan = plan_as_published(pair(0, np.inf), Shipping(0.005, 5e-6), batch_bytes=2000)

    assert plan.batches.tolist() == [20, 1]
    assert plan.rates.tolist() == pytest.approx([20 / (0.005 + 20 * 5e-4)] * 2)


@pytest.mark.parametrize(("work", "dop"), [(0.0149, 15), (0.015, 16), (0.0151, 16), (0, 1)])
def test_equation_4_is_strict(work, dop):
    plan = plan_as_published(pair(work, 1000), Shipping(0, 0))

    assert plan.instances.tolist() == [1, dop]


def test_the_dop_rises_where_no_batch_is_large_enough():
    flow = Dataflow.of(
        ["source", "parse", "sink"],
        [("source", "parse"), ("parse", "sink")],
        seconds=[0, 0.001, 0],
        rates=[900, 0, 0],
        sizes=[1, 100],
    )

    plan = plan_as_published(flow, Shipping(0.001, 5e-6), batch_bytes=1000)

    # One instance has 1.11 ms for a tuple, but needs 1 ms and 0.5 ms to ship its bytes; and
    # 0.9 * (1 + 0.5 + 1 / 10) = 1.44. The batch stays the largest.
    assert plan.instances.tolist() == [1, 2, 1]
    assert plan.batches.tolist()[1] == 10


@given(dataflows())
def test_rates_and_selectivities_of_zero_are_no_trouble(described):
    flow = described.flow()

    plan = plan_as_published(flow, described.shipping())

    assert (plan.rates >= 0).all()
    assert (plan.rates <= flow.arrivals(flow.rates) * (1 + 1e-9)).all()
    assert (plan.instances >= 1).all()
    assert (plan.batches >= 1).all()
    assert (plan.batches[plan.rates == 0] == 1).all()
    assert (plan.instances[flow.sources] == flow.given[flow.sources]).all()


@st.composite
def chains(draw):
    """Chains where the print is complete: one output for an input, one consumer, no hot key."""
    described = draw(dataflows(most=5, hottest=st.just(Fraction(0))))
    count = len(described.columns["seconds"])
    described.edges = [(place, place + 1) for place in range(count - 1)]
    described.columns["rates"] = [
        described.columns["rates"][0],
        *[Fraction(0)] * (count - 1),
    ]
    described.columns["given"] = [described.columns["given"][0], *[1] * (count - 1)]
    sizes = draw(st.lists(st.integers(1, 30), min_size=count - 1, max_size=count - 1))
    described.edge_columns = {
        "selectivity": [Fraction(1)] * (count - 1),
        "sizes": [Fraction(size) for size in sizes],
        "keyed": [True] * (count - 1),
    }
    return described


@given(chains(), st.integers(1, 200))
def test_where_the_print_is_complete_ours_has_as_many_instances_and_no_larger_batches(
    described, batch_bytes
):
    flow, shipping = described.flow(), described.shipping()
    rate = described.columns["rates"][0]
    # "Fast enough" is at least in Equation 2 and above in ours: they part where both are equal.
    for operator in range(flow.operators):
        work = rate * described.work(operator, described.largest(operator, batch_bytes))
        assume(work.denominator != 1 or work == 0)
    try:
        ours = plan_tuples(flow, shipping, batch_bytes=batch_bytes)
    except OverloadError:  # the source is too slow
        return

    printed = plan_as_published(flow, shipping, batch_bytes=batch_bytes)

    assert printed.instances.tolist() == ours.instances.tolist()
    at_equality = [
        described.usage(place, rate, int(count), int(batch)) == 1
        for place, (count, batch) in enumerate(zip(printed.instances, printed.batches, strict=True))
    ]
    assert (ours.batches <= printed.batches + at_equality).all()


def test_what_has_no_end_is_refused():
    with pytest.raises(DataflowError, match="as fast as it can, and shipping takes no time"):
        plan_as_published(pair(0, np.inf), Shipping(0, 0))
    with pytest.raises(OverloadError, match="more than any engine has"):
        plan_as_published(pair(1e300, 1e300), Shipping(0, 0))
