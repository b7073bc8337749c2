"""Input of a comparison: recorded once, evenly sliced, and refused if it is none."""

from dataclasses import dataclass
from types import SimpleNamespace

import pyarrow as pa
import pytest

from optimizers.cluster import Cluster
from optimizers.comparing.recording import recordings
from optimizers.errors import InvalidValueError, TopologyError, UnknownNameError
from optimizers.runtime.work import Settings
from optimizers.spark.harness import SparkHarness
from optimizers.topology import Topology

ONE = Topology.source("in", parallelism=3).then("count", key="k")
TWO = Topology.source("left").also("right").then("join", key="k", after=("left", "right"))
TABLE = pa.table({"k": range(10)})


class Frame:
    """Stands for a DataFrame, and counts how often it is computed."""

    isStreaming = False  # noqa: N815  # Spark's name

    def __init__(self, table):
        self.table = table
        self.computed = 0

    def toArrow(self):  # noqa: N802  # Spark's name
        self.computed += 1
        return self.table


SESSION = SimpleNamespace(
    createDataFrame=Frame,
    version="4",
    sparkContext=SimpleNamespace(
        master="local[2]", _jsc=SimpleNamespace(isLocal=lambda: True, sc=None)
    ),
)


@dataclass(frozen=True)
class Engine:
    """Stands for the engine on Spark."""

    spark: object
    cluster: Cluster
    settings: Settings
    provisioner: object = None
    hosts: object = None


def recording(topology, source, warm_up):
    engine = Engine(SESSION, Cluster.uniform(2), Settings())
    return recordings(SparkHarness(engine, topology), topology, source, warm_up)


def recorded(topology, source, warm_up=0):
    return list(recording(topology, source, warm_up))


def test_a_single_batch_needs_no_list_and_a_single_source_no_name():
    for source in (TABLE, {"in": TABLE}, Frame(TABLE), [TABLE], iter([{"in": Frame(TABLE)}])):
        (found,) = recorded(ONE, source)

        assert {"in": TABLE} == found.tables
        assert 10 == len(found.tables["in"])


def test_every_batch_is_recorded_once_and_only_when_it_is_its_turn():
    frames = [Frame(TABLE), Frame(TABLE)]
    found = recording(ONE, frames, 0)

    next(found)

    assert [1, 0] == [frame.computed for frame in frames]


def test_a_batch_is_dealt_evenly_to_the_instances_of_its_source():
    (found,) = recorded(ONE, TABLE)
    (large,) = recorded(ONE, pa.table({"k": range(3 * 65536 + 1)}))

    assert [4, 4, 2] == [len(chunk) for chunk in found.given["in"].table.column(0).chunks]
    assert [32769] * 5 + [32764] == [len(c) for c in large.given["in"].table.column(0).chunks]


def test_an_empty_batch_stays_empty():
    (found,) = recorded(ONE, TABLE[:0])

    assert (0, TABLE.schema) == (len(found.tables["in"]), found.tables["in"].schema)


def test_each_source_gets_its_rows():
    (found,) = recorded(TWO, {"right": TABLE, "left": TABLE[:3]})

    assert {"left": 3, "right": 10} == {name: len(rows) for name, rows in found.tables.items()}


@pytest.mark.parametrize(
    ("topology", "source", "error", "message"),
    [
        (TWO, TABLE, TopologyError, "has rows for one; give a dict"),
        (TWO, {"left": TABLE}, TopologyError, "source 'right' has no rows"),
        (ONE, {"out": TABLE}, UnknownNameError, "unknown source 'out'; known: 'in'"),
        (ONE, [[1, 2]], InvalidValueError, "the rows of source 'in' are a list; give a DataFrame"),
        (ONE, 5, InvalidValueError, "source=5 has no rows"),
        (ONE, "rows", InvalidValueError, "source='rows' has no rows"),
        (ONE, [], InvalidValueError, "0 batches are not more than the warm_up=0"),
    ],
)
def test_what_is_no_input_is_refused(topology, source, error, message):
    with pytest.raises(error, match=message):
        recorded(topology, source)


def test_a_stream_is_refused():
    stream = Frame(TABLE)
    stream.isStreaming = True

    with pytest.raises(InvalidValueError, match="are a stream, which ends for no variant"):
        recorded(ONE, stream)


def test_too_few_batches_are_refused_before_any_is_run():
    frames = [Frame(TABLE), Frame(TABLE)]

    with pytest.raises(InvalidValueError, match="2 batches are not more than the warm_up=2"):
        recording(ONE, frames, 2)

    assert [0, 0] == [frame.computed for frame in frames]
