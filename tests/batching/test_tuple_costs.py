import itertools

import numpy as np
import pytest
from dataflows import dataflows
from hypothesis import given
from hypothesis import strategies as st

from batching.dataflow import Dataflow
from batching.tuple_costs import (
    Shipping,
    TupleCosts,
    buffer_bytes,
    busy,
    latencies,
    queueing,
)
from sketches.errors import InvalidValueError


@given(dataflows(), st.integers(1, 100), st.integers(1, 9), st.integers(1, 200))
def test_work_is_what_messages_and_tuples_take_one_by_one(described, batch, instances, bytes_of):
    flow = described.flow()
    costs = TupleCosts.of(flow, described.shipping(), bytes_of)
    emitted = described.columns["rates"]
    every = np.full(flow.operators, instances)

    used = busy(flow, costs, flow.arrivals(flow.rates), every, np.full(flow.operators, batch))

    for operator in range(flow.operators):
        rate = described.rate(operator, emitted)
        assert costs.work(batch)[operator] == pytest.approx(float(described.work(operator, batch)))
        assert costs.largest[operator] == described.largest(operator, bytes_of)
        expected = described.usage(operator, rate, instances, batch)
        assert used[operator] == pytest.approx(float(expected))


@given(dataflows(), st.data())
def test_buffers_are_counted_one_by_one(described, data):
    flow = described.flow()
    numbers = st.lists(st.integers(1, 4), min_size=flow.operators, max_size=flow.operators)
    instances, batches = np.array(data.draw(numbers)), np.array(data.draw(numbers))

    distinct = shared = 0
    for producer in range(flow.operators):
        used = [
            edge
            for edge in described.outgoing(producer)
            if described.edge_columns["selectivity"][edge]
        ]
        reached = [
            range(instances[described.edges[edge][1]] if flow.keyed[edge] else 1) for edge in used
        ]
        rooms = [flow.sizes[edge] * batches[producer] for edge in used]
        for _ in range(instances[producer]):
            distinct += sum(room for room, each in zip(rooms, reached, strict=True) for _ in each)
            shared += sum(max(rooms, default=0) for _ in itertools.product(*reached))

    assert buffer_bytes(flow, instances, batches) == pytest.approx(distinct)
    assert buffer_bytes(flow, instances, batches, shared=True) == pytest.approx(shared)


def waits(usage, seconds, batch, *, batches=60_000, seed=1):
    """What tuples wait in a queue, one batch after another."""
    drawn = np.random.default_rng(seed).exponential(batch * seconds / usage, batches)
    wait, total = 0.0, 0.0
    for gap in drawn.tolist():
        total += wait * batch + seconds * batch * (batch - 1) / 2
        wait = max(0.0, wait + batch * seconds - gap)
    return total / (batches * batch)


@pytest.mark.parametrize(("usage", "batch"), [(0.3, 1), (0.6, 1), (0.5, 8), (0.7, 3)])
def test_a_simulated_queue_waits_as_long(usage, batch):
    expected = queueing(np.array([usage]), np.array([0.002]), np.array([float(batch)]))[0]

    assert waits(usage, 0.002, batch) == pytest.approx(expected, rel=0.05)


def test_a_queue_that_is_always_busy_grows_without_end_and_one_without_work_is_empty():
    found = queueing(np.array([1.0, 1.2, 0.0]), np.array([0.1, 0.1, 0.0]), np.ones(3))

    assert found.tolist() == [np.inf, np.inf, 0.0]


def test_the_time_of_a_tuple_is_filling_shipping_queueing_and_processing():
    flow = Dataflow.of(
        ["source", "sink"],
        [("source", "sink")],
        seconds=[0.001, 0.003],
        rates=[100, 0],
        sizes=[50],
    )
    costs = TupleCosts.of(flow, Shipping(0.002, 1e-5), 1000)
    instances, batches = np.array([1, 2]), np.array([5, 1])

    found = latencies(flow, costs, flow.arrivals(flow.rates), instances, batches)

    filling = 4 / 2 / (100 / 2)  # two buffers, each gets 50 tuples a second
    shipping = 0.002 + 5 * 50 * 1e-5
    usage = 100 * 0.003 / 2
    queued = usage * 0.003 * 5 / (2 * (1 - usage)) + 4 * 0.003 / 2
    assert found.tolist() == pytest.approx([0.001, 0.001 + filling + shipping + queued + 0.003])


def path_times(described, flow, instances, batches, usage):
    """The time of each path to each operator, as the sum of what it takes at each step."""

    def inside(operator):
        edges = [
            (flow_rate(producer) * described.edge_columns["selectivity"][edge], batches[producer])
            for edge, (producer, consumer) in enumerate(described.edges)
            if consumer == operator
        ]
        total = sum(rate for rate, _ in edges)
        processed = float(described.columns["seconds"][operator])
        if not total:
            return processed
        seen = float(sum(rate * int(batch) for rate, batch in edges) / total)
        work = float(described.work(operator, int(batches[operator])))
        used = usage[operator]
        return processed + used * work * seen / (2 * (1 - used)) + (seen - 1) * work / 2

    def flow_rate(operator):
        return described.rate(operator, described.columns["rates"])

    def to(operator):
        yield inside(operator)
        for edge, (producer, consumer) in enumerate(described.edges):
            along = flow_rate(producer) * described.edge_columns["selectivity"][edge]
            if consumer != operator or not along:
                continue
            batch = int(batches[producer])
            buffers = int(instances[producer])
            buffers *= int(instances[consumer]) if flow.keyed[edge] else 1
            filled = (batch - 1) / 2 / float(along / buffers)
            size = float(described.edge_columns["sizes"][edge])
            shipped = float(described.message) + batch * size * float(described.byte)
            for before in to(producer):
                yield before + filled + shipped + inside(operator)

    return to


@given(dataflows(most=5), st.integers(1, 80))
def test_the_slowest_path_counts(described, bytes_of):
    flow = described.flow(hottest=0.0)
    costs = TupleCosts.of(flow, described.shipping(), bytes_of)
    rates = flow.arrivals(flow.rates)
    instances = np.full(flow.operators, 100_000)
    batches = costs.largest
    usage = busy(flow, costs, rates, instances, batches)

    found = latencies(flow, costs, rates, instances, batches)

    to = path_times(described, flow, instances, batches, usage.tolist())
    expected = [max(to(operator)) for operator in range(flow.operators)]
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "n"])
def test_a_price_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidValueError, match="message="):
        Shipping(wrong, 0)
    with pytest.raises(InvalidValueError, match="byte="):
        Shipping(0, wrong)


def test_work_beyond_all_floats_is_refused():
    flow = Dataflow.of(["a", "b"], [("a", "b")], seconds=0, rates=[1, 0], selectivity=1e300)

    with pytest.raises(InvalidValueError, match="'a' does for a tuple is beyond"):
        TupleCosts.of(flow, Shipping(1e300, 0), 100)
