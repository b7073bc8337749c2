"""The sequential reference does what counting by hand does, whatever the job is spread over."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.groupings import PartialKey
from grouping.routing_table import RoutingTable
from optimizers.cluster import Cluster
from optimizers.comparing.diff.tables import parts_difference
from optimizers.comparing.reference import Reference
from optimizers.folds import Count, Distinct, Emit, Sum, each_row
from optimizers.plan import Plan
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.results import outputs_of, results_of
from optimizers.runtime.storage.location import Location
from optimizers.strategies.fixed import Fixed
from optimizers.topology import Topology


def spread(topology, folder, batches, plan=None):
    """Run batches under a plan as an engine would, and return the checkpoint."""
    checkpoint = Checkpoint.create_or_open(Location(folder), topology)
    led = Coordinator(topology, Cluster.uniform(3), Fixed(plan or Plan()), checkpoint)
    for batch in batches:
        assignment = led.assign()
        parts = {
            name: [table[::2].to_batches(), table[1::2].to_batches()]
            for name, table in batch.items()
        }
        led.commit(assignment, run_batch(assignment.work, assignment.ticket, parts), 1.0)
    return checkpoint


def posts(rows):
    places, tags = zip(*rows, strict=True)
    return {"posts": pa.table({"place": places, "tag": tags})}


CHAIN = (
    Topology.source("posts", parallelism=2)
    .then("by_place", key="place", parallelism=3)
    .then("by_tag", key="tag", parallelism=3, apply=Distinct("place"))
)
POSTS = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abcde")), min_size=1, max_size=20),
    min_size=1,
    max_size=3,
)


@settings(max_examples=15)
@given(rows=POSTS)
def test_it_counts_as_one_would_by_hand_and_so_does_a_job_that_is_spread(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    reference = Reference(CHAIN, f"{folder}/reference")
    for batch in rows:
        reference.execute(posts(batch))
    checkpoint = spread(CHAIN, f"{folder}/spread", map(posts, rows))

    counts = Counter(place for batch in rows for place, _ in batch)
    distinct = {tag: len({p for b in rows for p, t in b if t == tag}) for b in rows for _, tag in b}

    for read in (reference.results, lambda name: results_of(CHAIN, name, checkpoint.read(name))):
        by_place, by_tag = read("by_place").to_pydict(), read("by_tag").to_pydict()
        assert counts == dict(zip(by_place["place"], by_place["count"], strict=True))
        assert distinct == dict(zip(by_tag["tag"], by_tag["distinct"], strict=True))
    assert {"by_tag"} == set(reference.outputs())
    assert sorted(reference.outputs()["by_tag"].to_pylist(), key=str) == sorted(
        outputs_of(checkpoint)["by_tag"].to_pylist(), key=str
    )


def test_it_takes_a_job_whose_edges_are_made_for_several_instances(tmp_path):
    table = RoutingTable([1, 2], [2, 1], 3)
    job = Topology.source("in").then("count", key="k", parallelism=3, grouping=table)
    reference = Reference(job, str(tmp_path))

    reference.execute({"in": pa.table({"k": [1, 2, 2]})})

    assert {(1, 1), (2, 2)} == {
        tuple(row.values()) for row in reference.results("count").to_pylist()
    }


def test_it_has_one_instance_of_each_operator(tmp_path):
    reference = Reference(CHAIN, str(tmp_path))

    reference.execute(posts([(place, "a") for place in range(50)]))

    kept = Checkpoint.open(Location(str(tmp_path))).describe().instances
    assert {("by_place", 0), ("by_tag", 0)} == {(state.operator, state.instance) for state in kept}


def test_parts_of_one_key_are_put_together(tmp_path):
    job = Topology.source("in", parallelism=2).then(
        "sum",
        key="k",
        parallelism=6,
        grouping=PartialKey(choices=6),
        partial=True,
        apply=Sum("x", emit=Emit.NOTHING),
    )
    keys = np.arange(3000) % 7
    batch = {"in": pa.table({"k": keys, "x": np.arange(3000)})}
    checkpoint = spread(job, str(tmp_path / "spread"), [batch, batch])
    reference = Reference(job, str(tmp_path / "reference"))
    reference.execute(batch)
    reference.execute(batch)

    found = results_of(job, "sum", checkpoint.read("sum"))

    parts = Counter(checkpoint.read("sum")["k"].to_pylist())
    assert max(parts.values()) > 2  # so there was something to put together
    expected = {k: 2 * int(np.arange(3000)[keys == k].sum()) for k in range(7)}
    for rows in (found, reference.results("sum")):
        assert expected == dict(zip(rows["k"].to_pylist(), rows["sum"].to_pylist(), strict=True))


PARTS = Topology.source("in", parallelism=2).then(
    "sum", key=("k", "l"), parallelism=4, grouping=PartialKey(4), partial=True, apply=Sum("x")
)


@settings(max_examples=15)
@given(rows=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=40), max_size=3))
def test_of_parts_that_leave_the_job_the_keys_are_those_of_the_reference(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    reference = Reference(PARTS, f"{folder}/reference")
    for number, keys in enumerate(rows):
        batch = {"in": pa.table({"k": keys, "l": [f"{k}" for k in keys], "x": [1.0] * len(keys)})}
        reference.execute(batch)
        again = [{"in": batch["in"].take(pa.array(range(len(keys))))} for _ in range(number + 1)]
        checkpoint = spread(PARTS, f"{folder}/spread-{number}", again)
        expected, found = reference.outputs()["sum"], outputs_of(checkpoint)["sum"]

        def differs(parts, batch=number, whole=expected):
            return parts_difference("sum", batch, ("k", "l"), whole, parts)

        came = Counter(keys)
        assert set(came) == set(found["k"].to_pylist())
        assert differs(found) is None
        for gone in came:
            left = found.filter(pc.not_equal(found["k"], gone))
            if len(left):
                lost = differs(left)
                assert f"keys in the output of operator 'sum' in batch {number}" == lost.what
                assert (f"k={gone}, l='{gone}'", "nothing", 1) == (lost.row, lost.found, lost.rows)
        other = pa.table({"k": [9], "l": ["9"], "sum": [1.0]}, schema=found.schema)
        assert ("k=9, l='9'", "nothing") == (
            (extra := differs(pa.concat_tables([found, other]))).row,
            extra.expected,
        )
        assert "its columns" == differs(found.rename_columns(["k", "l", "total"])).row
        assert "all of it" == differs(None).row


def test_a_result_that_is_called_like_the_key_keeps_another_name(tmp_path):
    job = Topology.source("in").then("n", key="count", apply=Count(emit=Emit.NOTHING))
    reference = Reference(job, str(tmp_path))

    reference.execute({"in": pa.table({"count": ["x", "x"]})})

    assert [{"count": "x", "value_count": 2}] == reference.results("n").to_pylist()


def test_an_operator_that_saw_nothing_has_no_results(tmp_path):
    job = Topology.source("in").then("drop", apply=each_row(lambda row: None)).then("n", key="k")
    reference = Reference(job, str(tmp_path))

    reference.execute({"in": pa.table({"k": [1]})})

    assert 0 == len(reference.results("n"))
    assert {} == reference.outputs()


def test_output_is_kept_only_if_asked_for(tmp_path):
    reference = Reference(CHAIN, str(tmp_path), keep_output=False)

    reference.execute(posts([(1, "a")]))

    assert {} == reference.outputs()


def test_an_error_tells_that_it_was_in_the_reference(tmp_path):
    def fail(row):
        raise RuntimeError("broken")

    job = Topology.source("in").then("f", apply=each_row(fail))

    with pytest.raises(RuntimeError, match="broken") as raised:
        Reference(job, str(tmp_path)).execute({"in": pa.table({"k": [1]})})

    assert any("sequential reference" in note for note in raised.value.__notes__)
