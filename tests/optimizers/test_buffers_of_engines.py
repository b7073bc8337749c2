"""The laws of `batching.buffers`, of what tasks send and of what simulations do."""

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from buffer_laws import RULES, check_once, check_order, streams
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Cluster, Plan
from optimizers.layout import Instance, Layout
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task import outbox
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.outbox import Outbox
from optimizers.runtime.task.shared_parcels import in_order
from optimizers.runtime.work import JobContext, Settings
from optimizers.simulation import Network, SimulationEngine, Stream


def parcels_of(stream, rules, *, shared=False, at_once=1 << 16):
    """What a task sends of a stream, a piece after the other."""
    settings = Settings(
        parcel=rules.rows,
        parcel_bytes=1 << 30 if rules.bytes is None else int(rules.bytes),
        shared_batches=shared,
    )
    layout = Layout.of(stream.job, Cluster.uniform(2), Plan())
    work = JobContext(layout, {}, Location("/nowhere"), settings)
    bad = BadRows(work.location, Attempt("s", 0, 7, "x"))
    box = Outbox(work, stream.job.edges, Instance("s", 0), 0, bad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "PACKED_AT_ONCE", at_once)
        pieces = [pa.record_batch(stream.columns(piece)) for piece in stream.pieces]
        parcels = [parcel for piece in pieces if len(piece) for parcel in box.send(piece)]
        return [*parcels, *box.finish()]


def got_by_tasks(parcels):
    """The numbers of the tuples that each instance unpacks, whichever parcel is there first."""
    mine, found = defaultdict(list), {}
    for parcel in reversed(parcels):
        mine[parcel.edge, parcel.target].append(parcel)
    for who, arrived in mine.items():
        unpacked = in_order(sorted(arrived, key=lambda parcel: parcel.order))
        found[who] = [n for _, table in unpacked for n in table.column("number").to_pylist()]
    return found


@given(streams(), RULES, st.booleans(), st.sampled_from((1, 5, 1 << 16)))
def test_parcels_bring_each_instance_its_tuples_in_their_order(stream, rules, shared, at_once):
    parcels = parcels_of(stream, rules, shared=shared, at_once=at_once)

    check_order(stream, got_by_tasks(parcels))


@given(streams(), RULES, st.booleans())
def test_a_parcel_leaves_by_the_first_rule_that_applies(stream, rules, shared):
    parcels = parcels_of(stream, rules, shared=shared)

    size = 8.0 * (1 + len(set(map(stream.column, range(len(stream.instances))))))
    by_bytes = math.inf if rules.bytes is None else math.ceil(rules.bytes / size)
    most = min(rules.rows, by_bytes)
    tuples = defaultdict(int)
    for parcel in parcels:
        assert 1 <= parcel.rows <= most
        tuples[parcel.edge, parcel.target] += parcel.rows
    if not shared:  # all but the last of each instance are full
        for who, rows in tuples.items():
            own = sum((parcel.edge, parcel.target) == who for parcel in parcels)
            assert math.ceil(rows / most) == own


@given(streams(), RULES)
def test_a_shared_parcel_goes_to_an_instance_of_each_consumer(stream, rules):
    parcels = parcels_of(stream, rules, shared=True)

    bodies = defaultdict(list)
    for parcel in parcels:
        bodies[id(parcel.body)].append(parcel.edge)
    assert all([*range(len(stream.instances))] == sorted(edges) for edges in bodies.values())


def got_in_simulation(stream, rules, buffers):
    """The numbers of the tuples that each instance takes in when they are simulated."""
    columns = [stream.columns(piece) for piece in stream.pieces]
    whole = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
    times = np.repeat(np.arange(len(columns)), [len(each["number"]) for each in columns])
    sizes = np.concatenate([sizes for _, _, sizes in stream.pieces])
    network = Network(
        buffers=buffers,
        batch_bytes=math.inf if rules.bytes is None else rules.bytes,
        linger=math.inf if rules.seconds is None else rules.seconds,
    )
    source = Stream(times.astype(float), whole, sizes)
    run = SimulationEngine(network=network).run(stream.job, source, Plan(batch={"s": rules.rows}))
    found = defaultdict(list)
    for consumer in range(len(stream.instances)):
        served = run.operators[f"c{consumer}"]
        for row, instance in zip(served.rows.tolist(), served.instances.tolist(), strict=True):
            found[consumer, instance].append(row)
    return found


@given(streams(), RULES, st.sampled_from(("distinct", "alike", "shared")))
def test_simulated_batches_bring_each_instance_its_tuples(stream, rules, buffers):
    if not any(len(sizes) for *_, sizes in stream.pieces):
        return
    got = got_in_simulation(stream, rules, buffers)

    if buffers == "shared":
        check_once(stream, got)
    else:
        check_order(stream, got)
