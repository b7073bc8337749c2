"""Meters by a query's progress, as Spark documents it: what came is told truly, or is not told."""

import json

import pytest

from optimizers.runtime.driver.inflow import Inflow
from optimizers.runtime.storage.location import Location
from optimizers.spark.progress_meters import CaughtUpMeter, KafkaMeter, Looks

START = 1795089600.0  # 2026-11-19T12:00:00Z


def source(end, latest, **more):
    """One of the sources in the JSON of a StreamingQueryProgress."""
    return {"description": "a source", "endOffset": end, "latestOffset": latest, **more}


def progress(seconds, *sources, looking=0):
    """The progress of a batch that was begun this many seconds after noon."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    minutes, rest = divmod(whole, 60)
    return {
        "timestamp": f"2026-11-19T12:{minutes:02}:{rest:02}.{thousandths:03}Z",
        "durationMs": {"latestOffset": looking, "triggerExecution": 900},
        "sources": [*sources],
    }


class Told:
    """The progress of the last batch, as it is told."""

    def __init__(self):
        self.last = None

    def __call__(self):
        return self.last


def kafka(**partitions):
    return {"posts": {name.removeprefix("p"): place for name, place in partitions.items()}}


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def topics(told, tmp_path):
    """A meter of Kafka; the query began at places 100 and 40."""
    log = tmp_path / "spark" / "sources" / "0"
    log.mkdir(parents=True)
    (log / "0").write_bytes(b"\x00v1\n" + json.dumps(kafka(p0=100, p1=40)).encode())
    return KafkaMeter(Location(tmp_path), Looks(told, 0, 1))


class TestKafka:
    def test_counts_places_from_where_the_query_began(self, topics, told):
        told.last = progress(10.0, source(kafka(p0=150, p1=60), kafka(p0=180, p1=90)), looking=250)

        assert 130.0 == topics.latest(START + 15)
        assert 4.75 == topics.age(START + 15)
        assert 70.0 == topics.admitted(json.dumps(kafka(p0=150, p1=60)), 70.0)
        # A partition that was added since, which is read from its beginning.
        assert 75.0 == topics.admitted(json.dumps(kafka(p0=150, p1=60, p2=5)), 5.0)

    def test_offsets_may_come_as_text(self, topics, told):
        said = source(json.dumps(kafka(p0=150)), json.dumps(kafka(p0=180, p1=90)))
        told.last = progress(10.0, said)

        assert 130.0 == topics.latest(START + 15)

    @pytest.mark.parametrize(
        "latest",
        [None, "None", "", kafka(p0=-1), {"posts": 3}, 7, {"posts": {"0": "3"}}, "not JSON"],
    )
    def test_does_not_know_what_spark_does_not_tell(self, topics, told, latest):
        told.last = progress(10.0, source(kafka(p0=150, p1=60), latest))

        assert topics.latest(START + 15) is None
        assert 0.0 == topics.age(START + 15)

    def test_knows_nothing_before_the_first_batch_is_done_or_of_a_time_before_a_look(
        self, topics, told
    ):
        assert topics.latest(START) is None

        told.last = progress(10.0, source(kafka(p0=150), kafka(p0=180, p1=90)))
        assert topics.latest(START + 9.9) is None

    def test_knows_nothing_where_spark_takes_streams_together(self, topics, told):
        both = source(kafka(p0=150), kafka(p0=180, p1=90))
        told.last = progress(10.0, both, both)

        assert topics.latest(START + 15) is None

    def test_knows_nothing_until_spark_has_written_where_the_query_began(self, told, tmp_path):
        meter = KafkaMeter(Location(tmp_path / "other"), Looks(told, 0, 1))
        told.last = progress(10.0, source(kafka(p0=150), kafka(p0=180)))

        assert meter.latest(START + 15) is None
        assert meter.admitted(json.dumps(kafka(p0=150)), 1.0) is None


class Clock:
    now = START

    def __call__(self):
        return self.now


def test_rows_of_kafka_arrive_at_their_rate_and_those_left_wait(topics, told):
    # 200 rows a second since the query began, of which 90 a second are let in, in batches of 10 s.
    clock = Clock()
    inflow = Inflow(clock)
    inflow.watch({"in": (0, topics)}, 1)
    found = []
    for batch in range(6):
        begun, end = 10 * batch, 900 * (batch + 1)
        told_next = progress(
            begun, source(kafka(p0=100 + end, p1=40), kafka(p0=2_100 + 200 * begun))
        )
        clock.now = START + begun + 9.0
        inflow.add([json.dumps(kafka(p0=100 + end, p1=40))], {"in": 900.0})
        found.append(inflow.end()["in"])
        told.last = told_next  # once all is done

    assert found[0].arrived is None  # nothing is told before the first batch is done
    assert [900.0] * 6 == [seen.admitted for seen in found]
    assert [(2_000.0, 10.0)] * 4 == [(seen.arrived, seen.seconds) for seen in found[2:]]
    # 3,800 rows have come since, at most, so what waits is not known within a tenth.
    assert [None] * 6 == [seen.waiting for seen in found]


class TestAnyOther:
    def test_has_let_in_all_that_came_where_a_batch_leaves_nothing(self, told):
        meter = CaughtUpMeter(Looks(told, 1, 2))
        delta = {"reservoirVersion": 3, "index": -1, "sourceVersion": 1}
        other = source("5", "9")
        assert 40.0 == meter.admitted(json.dumps(delta), 40.0)
        assert 65.0 == meter.admitted(json.dumps({**delta, "reservoirVersion": 4}), 25.0)

        # The same, with its fields in another order.
        told.last = progress(10.0, other, source(dict(reversed(delta.items())), delta))
        assert 40.0 == meter.latest(START + 12)
        assert 2.0 == meter.age(START + 12)

        told.last = progress(
            20.0, other, source({**delta, "reservoirVersion": 4}, {**delta, "reservoirVersion": 7})
        )
        assert meter.latest(START + 22) is None  # some were left, and who knows how many
        assert 0.0 == meter.age(START + 22)

    def test_offsets_may_be_numbers_or_any_text(self, told):
        meter = CaughtUpMeter(Looks(told, 0, 1))
        for number, offset in enumerate(("17", "shard-7@9", '"x"')):
            assert number + 1.0 == meter.admitted(offset, 1.0)
            told.last = progress(10.0, source(offset, offset))
            assert number + 1.0 == meter.latest(START + 12)

    def test_knows_nothing_of_sources_that_tell_no_latest_offset(self, told):
        meter = CaughtUpMeter(Looks(told, 0, 1))
        meter.admitted("17", 1.0)
        for latest in (None, "None", ""):
            told.last = progress(10.0, source(latest, latest))
            assert meter.latest(START + 12) is None

    def test_knows_nothing_of_a_batch_of_an_earlier_driver(self, told):
        meter = CaughtUpMeter(Looks(told, 0, 1))
        told.last = progress(10.0, source("17", "17"))

        assert meter.latest(START + 12) is None

    def test_remembers_the_last_batches_only(self, told):
        meter = CaughtUpMeter(Looks(told, 0, 1))
        for number in range(1_000):
            meter.admitted(str(number), 2.0)

        told.last = progress(10.0, source("998", "998"))
        assert 1_998.0 == meter.latest(START + 12)
        told.last = progress(10.0, source("3", "3"))
        assert meter.latest(START + 12) is None


def test_rows_of_a_source_that_leaves_nothing_arrive_at_their_rate(told):
    clock = Clock()
    inflow = Inflow(clock)
    inflow.watch({"in": (0, CaughtUpMeter(Looks(told, 0, 1)))}, 1)
    found = []
    for batch in range(6):
        begun, end = 4.0 * batch, 50 * batch
        clock.now = START + begun + 3.0
        inflow.add([str(end)], {"in": 50.0})
        found.append(inflow.end()["in"])
        told.last = progress(begun, source(str(end), str(end)))

    assert [None, None] == [seen.arrived for seen in found[:2]]
    assert [(50.0, 4.0)] * 4 == [(seen.arrived, seen.seconds) for seen in found[2:]]
    assert [12.5] * 4 == [seen.rate for seen in found[2:]]
    assert [None] * 6 == [seen.waiting for seen in found]
