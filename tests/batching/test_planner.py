import itertools
from fractions import Fraction

import numpy as np
import pytest
from dataflows import dataflows
from hypothesis import assume, given
from hypothesis import strategies as st

from batching.dataflow import Dataflow
from batching.errors import DataflowError, OverloadError
from batching.planner import plan_tuples
from batching.tuple_costs import Shipping, buffer_bytes
from sketches.errors import InvalidValueError

BYTES = st.integers(1, 120)
HEADROOMS = st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(1)])


def least(described, operator, rate, batch_bytes, given=None, *, at_least=1):
    """The first pair of instances and batch that works, among all of them in their order."""
    largest = described.largest(operator, batch_bytes)
    loads = [rate * described.work(operator, batch) for batch in range(1, largest + 1)]
    hottest = described.columns["hottest"][operator]
    if loads[-1] * hottest >= 1:
        return None
    for instances in itertools.count(at_least) if given is None else [given]:
        share = max(hottest, Fraction(1, instances))
        if min(loads) * share >= 1:
            continue
        return instances, next(b for b, load in enumerate(loads, 1) if load * share < 1)
    return None


def by_trial(described, batch_bytes, headroom, keeping=None):
    emitted = [rate * (1 + headroom) for rate in described.columns["rates"]]
    return [
        least(
            described,
            operator,
            described.rate(operator, emitted),
            batch_bytes,
            described.columns["given"][operator] if described.is_source(operator) else None,
            at_least=1 if keeping is None else max(1, keeping[operator]),
        )
        for operator in range(len(emitted))
    ]


@given(dataflows(), BYTES, HEADROOMS)
def test_each_operator_has_the_least_instances_and_then_the_least_batch(
    described, batch_bytes, headroom
):
    flow, shipping = described.flow(), described.shipping()
    options = {"batch_bytes": batch_bytes, "headroom": float(headroom)}
    tried = by_trial(described, batch_bytes, headroom)

    if None in tried:
        with pytest.raises(OverloadError):
            plan_tuples(flow, shipping, **options)
        return
    plan = plan_tuples(flow, shipping, **options)

    pairs = list(zip(plan.instances.tolist(), plan.batches.tolist(), strict=True))
    assert tried == pairs
    assert (plan.scale, plan.limited_by) == (1.0, None)
    assert (plan.busy < 1).all()


@given(dataflows(), BYTES, HEADROOMS, st.data())
def test_with_what_is_kept_batches_are_the_least(described, batch_bytes, headroom, data):
    count = len(described.columns["rates"])
    keeping = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    tried = by_trial(described, batch_bytes, headroom, keeping)
    assume(None not in tried)

    options = {"batch_bytes": batch_bytes, "headroom": float(headroom), "keeping": keeping}
    plan = plan_tuples(described.flow(), described.shipping(), **options)

    assert tried == list(zip(plan.instances.tolist(), plan.batches.tolist(), strict=True))


def carried(described, batch_bytes, instances):
    """The share of the load that a division of instances carries, at most 1."""
    emitted = described.columns["rates"]
    found = Fraction(1)
    for operator, count in enumerate(instances):
        largest = described.largest(operator, batch_bytes)
        rate = described.rate(operator, emitted)
        used = described.usage(operator, rate, count, largest)
        found = min(found, 1 / used if used else Fraction(1))
    return found


def divisions(described, workers):
    count = len(described.columns["seconds"])
    given = described.columns["given"]
    free = [operator for operator in range(count) if not described.is_source(operator)]
    left = workers - sum(given[each] for each in range(count) if each not in free)
    for chosen in itertools.product(range(1, left + 1), repeat=len(free)):
        if sum(chosen) <= left:
            instances = list(given)
            for operator, many in zip(free, chosen, strict=True):
                instances[operator] = many
            yield instances


@given(dataflows(most=4), BYTES, st.integers(4, 11))
def test_a_cap_carries_as_much_as_the_best_of_all_divisions(described, batch_bytes, workers):
    flow, shipping = described.flow(), described.shipping()
    try:
        plan = plan_tuples(flow, shipping, batch_bytes=batch_bytes, workers=workers, throttle=True)
    except OverloadError as error:
        assert "are too few" in str(error)  # noqa: PT017 - any other refusal is wrong here
        assert not list(divisions(described, workers))
        return

    assert plan.instances.sum() <= workers
    emitted = described.columns["rates"]
    if any(
        described.usage(place, emitted[place], given, described.largest(place, batch_bytes)) >= 1
        for place, given in enumerate(described.columns["given"])
        if described.is_source(place)
    ):
        return  # a source that is slow by itself is slowed on its own: the next test
    best = max(carried(described, batch_bytes, each) for each in divisions(described, workers))
    assert plan.scale == pytest.approx(float(best), rel=1e-8)
    # And what is carried takes the fewest instances, then the smallest batches. Where an instance
    # would be busy all of its time, to within rounding, there may be one more.
    rate = Fraction(plan.scale)
    for operator, pair in enumerate(zip(plan.instances, plan.batches, strict=True)):
        if not described.is_source(operator):
            fewest = [
                least(described, operator, described.rate(operator, scaled), batch_bytes)
                for scaled in (
                    [rate * each * share for each in emitted]
                    for share in (1, 1 - Fraction(1, 10**10))
                )
            ]
            assert pair in fewest or plan.busy[operator] > 1 - 1e-6


@given(dataflows(), BYTES)
def test_a_source_gives_what_its_instances_can_send(described, batch_bytes):
    flow, shipping = described.flow(), described.shipping()
    endless = described.flow(rates=np.where(flow.sources, np.inf, 0.0))
    idle = [
        place
        for place in range(flow.operators)
        if described.is_source(place)
        and not described.work(place, described.largest(place, batch_bytes))
    ]
    if idle:
        with pytest.raises(DataflowError, match="as fast as it can"):
            plan_tuples(endless, shipping, batch_bytes=batch_bytes, throttle=True)
        return

    plan = plan_tuples(endless, shipping, batch_bytes=batch_bytes, throttle=True)

    most = [
        float(
            1
            / described.usage(place, Fraction(1), int(given), described.largest(place, batch_bytes))
        )
        if described.is_source(place)
        else 0.0
        for place, given in enumerate(flow.given)
    ]
    assert plan.rates[flow.sources] == pytest.approx(np.array(most)[flow.sources] * plan.scale)
    assert (plan.busy < 1).all()


@given(dataflows(most=3, hottest=st.just(Fraction(0))), BYTES, st.integers(1, 100))
def test_limits_are_kept_or_refused(described, batch_bytes, tenths):
    flow, shipping = described.flow(), described.shipping()
    try:
        free = plan_tuples(flow, shipping, batch_bytes=batch_bytes, throttle=True, headroom=0.1)
    except OverloadError:
        return
    wanted = {
        "latency": max(free.latency * (tenths / 50), 1e-9),  # exactly as much for 50
        "memory": max(free.memory * (tenths / 50), 1.0),
    }
    options = {"batch_bytes": batch_bytes, "throttle": True, "headroom": 0.1}

    try:
        plan = plan_tuples(flow, shipping, **options, **wanted)
    except OverloadError as error:
        assert "the best plan that was found" in str(error)  # noqa: PT017
        assert tenths < 50  # what the plan without limits keeps to is never refused
        return

    assert plan.latency <= wanted["latency"]
    assert plan.memory <= wanted["memory"]
    assert plan.memory == buffer_bytes(flow, plan.instances, plan.batches)
    assert (plan.instances >= free.instances).all()
    assert (plan.busy < 1).all()
    if tenths >= 50:
        assert plan == free


def pipeline(**changed):
    columns = {"seconds": [0, 0.003, 0.001], "rates": [1000, 0, 0], "sizes": 100}
    return Dataflow.of(
        ["source", "parse", "count"],
        [("source", "parse"), ("parse", "count")],
        **{**columns, **changed},
    )


CHEAP = Shipping(0.0005, 1e-8)


def test_a_latency_that_more_instances_give_is_found():
    free = plan_tuples(pipeline(), CHEAP)

    plan = plan_tuples(pipeline(), CHEAP, latency=0.0075)

    assert free.latency > 0.01
    assert plan.latency <= 0.0075
    assert free.instances.sum() < plan.instances.sum() <= free.instances.sum() + 3


def test_memory_is_bought_with_instances():
    costly = Shipping(0.02, 1e-8)
    free = plan_tuples(pipeline(given=[3, 1, 1]), costly)

    plan = plan_tuples(pipeline(given=[3, 1, 1]), costly, memory=free.memory * 0.85)

    assert plan.memory <= free.memory * 0.85
    assert plan.instances.sum() > free.instances.sum()


def test_a_load_that_no_parallelism_carries_names_the_hottest_key():
    flow = pipeline(hottest=[0, 0.5, 0])

    with pytest.raises(OverloadError, match=r"'parse': its hottest key has 50.0% .* 1\.5\d* s"):
        plan_tuples(flow, CHEAP)
    plan = plan_tuples(flow, CHEAP, throttle=True)

    assert plan.limited_by == "parse"
    assert plan.busy[1] == pytest.approx(1)


def test_headroom_counts_for_the_hottest_key_and_for_the_cap():
    flow = pipeline(hottest=[0, 0.3, 0])  # 0.9 s of work a second for one instance

    plan_tuples(flow, CHEAP, headroom=0.0)
    with pytest.raises(OverloadError, match=r"its hottest key has 30\.0%"):
        plan_tuples(flow, CHEAP, headroom=0.2)
    full = plan_tuples(pipeline(), CHEAP, workers=7)
    assert full.instances.sum() <= 7
    with pytest.raises(OverloadError, match=r"workers=7 carry 44\.4% of the load"):
        plan_tuples(pipeline(), CHEAP, workers=7, headroom=2.0)


def test_a_limit_takes_no_more_than_the_workers():
    needed = plan_tuples(pipeline(), CHEAP, latency=0.0075).instances.sum()

    assert plan_tuples(pipeline(), CHEAP, latency=0.0075, workers=int(needed)).latency <= 0.0075
    with pytest.raises(OverloadError, match="the best plan that was found has"):
        plan_tuples(pipeline(), CHEAP, latency=0.0075, workers=int(needed) - 1)


def test_a_source_that_is_slower_than_its_rate_is_named():
    flow = pipeline(seconds=[0.002, 0, 0])

    plan = plan_tuples(flow, CHEAP, throttle=True)

    assert plan.limited_by == "source"
    assert plan.rates[0] == pytest.approx(500, rel=0.01)
    assert plan.scale == 1  # of what it can give


@pytest.mark.parametrize(
    ("flow", "options", "message"),
    [
        (pipeline(), {"workers": 2}, "workers=2 are too few: 2 operators need one each"),
        (pipeline(), {"workers": 4}, r"workers=4 carry 66.\d% of the load \('parse' limits it\)"),
        (pipeline(seconds=[0.1, 0, 0]), {}, "source 'source' is to give 1000 tuples a second"),
        (pipeline(), {"latency": 0.001}, r"latency=0.001: the best plan that was found has"),
        (pipeline(), {"workers": 7, "keeping": [0, 0, 9]}, "workers=7 are fewer than the 1[0-9]"),
        (pipeline(), {"memory": 10}, r"memory=10: the best plan that was found has"),
    ],
)
def test_what_cannot_be_carried_is_refused(flow, options, message):
    with pytest.raises(OverloadError, match=message):
        plan_tuples(flow, CHEAP, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_bytes": 0}, "batch_bytes=0 is out of range"),
        ({"headroom": -0.1}, "headroom=-0.1"),
        ({"workers": 2.5}, "workers=2.5 is not a whole number"),
        ({"latency": 0}, "latency=0 is out of range"),
        ({"memory": float("nan")}, "memory=nan"),
        ({"keeping": [1, 2]}, "are not 3 numbers from 0 up"),
        ({"keeping": [0, -1, 0]}, "are not 3 numbers from 0 up"),
    ],
)
def test_an_option_out_of_its_range_is_named(options, message):
    with pytest.raises(InvalidValueError, match=message):
        plan_tuples(pipeline(), CHEAP, **options)


def test_work_that_is_exactly_one_instance_needs_two():
    flow = Dataflow.of(["a", "b"], [("a", "b")], seconds=[0, 0.015], rates=[1000, 0])

    assert plan_tuples(flow, Shipping(0, 0)).instances.tolist() == [1, 16]
