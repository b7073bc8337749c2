"""Keys find their instance as everywhere in Penstock, whatever holds them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from grouping.feedback import Dispatcher, Reporter
from grouping.groupings import Fields, Grouping
from grouping.hashing import hash_parts
from optimizers import Edge, Operator, Plan, Topology
from optimizers.errors import InvalidValueError
from optimizers.simulation import Network, SimulationEngine, Stream, Work
from sketches.keys import Pairs, as_keys, pair_codes

WORDS = ["Asia", "Oceania", "Africa", "Asia", "Antarctica", "Europe"]
NUMBERS = [3, 1, 4, 1, 5, 9]


def job(key):
    return Topology(
        [Operator("in"), Operator("work", parallelism=4)], [Edge("in", "work", Fields(), key)]
    )


def instances(key, columns, **options):
    run = SimulationEngine().run(job(key), Stream(np.arange(6.0), columns), **options)
    result = run.operators["work"]
    return result.instances[np.argsort(result.rows)].tolist()


@pytest.mark.parametrize(
    "held",
    [
        WORDS,
        np.array(WORDS),
        np.array(WORDS, dtype=object),
        pa.array(WORDS),
        pa.chunked_array([WORDS[:2], WORDS[2:]]),
        pa.array(WORDS).dictionary_encode(),
    ],
    ids=["list", "array", "objects", "arrow", "chunks", "dictionary"],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_text_goes_where_its_hash_says_in_any_container(held, batch):
    expected = hash_parts(WORDS, 4).tolist()

    assert expected == instances("k", {"k": held}, optimizer=Plan(batch={"in": batch}))


def test_a_key_of_several_columns_is_their_pair_and_the_pair_of_that():
    columns = {"word": WORDS, "number": NUMBERS, "more": NUMBERS[::-1]}
    pairs = as_keys(Pairs(WORDS, NUMBERS))

    assert hash_parts(pairs, 4).tolist() == instances(("word", "number"), columns)
    triples = pair_codes(pairs.codes, as_keys(NUMBERS[::-1]).codes)
    expected = hash_parts(triples.view(np.int64), 4).tolist()
    assert expected == instances(("word", "number", "more"), columns)


def test_keys_of_two_sources_that_meet_are_told_apart():
    both = Topology.source("a").also("b").then("mixed", after=["a", "b"])
    both = both.then("work", key="k", parallelism=4)
    streams = {
        "a": Stream(np.arange(0.0, 6.0, 2), {"k": WORDS[:3]}),
        "b": Stream(np.arange(1.0, 7.0, 2), {"other": NUMBERS[:3], "k": pa.array(WORDS[3:])}),
    }

    result = SimulationEngine().run(both, streams).operators["work"]

    owners = SimulationEngine().run(
        Topology.source("in").then("work", key="k", parallelism=4),
        Stream(np.arange(6.0), {"k": WORDS}),
    )
    expected = owners.operators["work"].instances.tolist()
    assert expected == result.instances[np.argsort(result.rows)].tolist()


@dataclass(frozen=True, slots=True)
class Wild(Grouping):
    """Sends to whom it wants, and writes to whom it wants."""

    instance: int = 0
    sender: int = 0
    heard: tuple = ()
    kind = "wild"
    listens = True

    def _dispatcher(self, instances, sender, senders, truth):
        return WildDispatcher(self)

    def _reporter(self, instance, instances, senders):
        return WildReporter(self)


class WildDispatcher(Dispatcher):
    def __init__(self, wild):
        self.wild = wild

    def dispatch(self, code, now):
        CODES.append(code)
        return self.wild.instance, None


class WildReporter(Reporter):
    def __init__(self, wild):
        self.wild = wild

    def executed(self, sender, code, seconds, now, carried):
        return [(self.wild.sender, now)]


CODES = []


@pytest.mark.parametrize("network", [Network(), Network(latency=1.0), Network(per_batch=0.1)])
@pytest.mark.parametrize(
    ("wild", "words"),
    [
        (Wild(instance=4), "the dispatcher of a wild grouping chose instance 4 of 4"),
        (Wild(instance=-1), "chose instance -1 of 4"),
        (Wild(sender=1), "a reporter of a wild grouping wrote to sender 1 of 1"),
        (Wild(sender=-1), "wrote to sender -1 of 1"),
    ],
)
def test_who_sends_or_writes_to_nobody_is_told_so(network, wild, words):
    lost = Topology([Operator("in"), Operator("work", parallelism=4)], [Edge("in", "work", wild)])

    with pytest.raises(InvalidValueError, match=words):
        SimulationEngine(network=network).run(lost, Stream.steady(rate=0.1, count=9))


@pytest.mark.parametrize("network", [Network(), Network(per_batch=0.1)])
def test_dispatchers_are_told_the_code_of_the_key_and_zero_without_one(network):
    for key, expected in (("k", as_keys(WORDS).codes.tolist()), (None, [0] * 6)):
        CODES.clear()
        heard = Topology(
            [Operator("in"), Operator("work", parallelism=4)], [Edge("in", "work", Wild(), key)]
        )
        SimulationEngine(network=network).run(
            heard, Stream(np.arange(6.0), {"k": WORDS}), work={"work": Work(0.1)}
        )
        assert expected == CODES
