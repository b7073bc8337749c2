"""Probes: what tasks observe is what came, and never in the way of the job."""

from collections import Counter

import any_job
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from any_job import Driver
from hypothesis import example, given, settings
from hypothesis import strategies as st
from report_rows import rows_of, seen_in

from grouping.groupings import LocalOrShuffle
from grouping.hashing import hash_parts
from grouping.key_batch import KeyBatch
from optimizers import Edge, Operator, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.runtime.observe import probes
from optimizers.runtime.observe.observation import Observation, Seen
from optimizers.runtime.observe.probes import EdgeProbe
from optimizers.runtime.observe.table_sums import heaviest
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task import collecting
from optimizers.runtime.task.reports import Reports, TaskReport
from optimizers.runtime.work import JobContext, Settings
from optimizers.statistics import Probe

ALL = frozenset(Probe)
TUPLES = Count(emit=Emit.TUPLES)


def job(*, between=None, parallelism=2, groups=8):
    """Two keyed operators, and perhaps one without a key between them."""
    made = Topology.source("s", parallelism=2).then(
        Operator("a", "k", parallelism, apply=TUPLES, key_groups=groups)
    )
    if between is not None:
        made = made.then("f", apply=between, parallelism=2)
    return made.then(Operator("b", "l", 3, apply=Count(emit=Emit.NOTHING), key_groups=4))


def seen(driver, tables, kind, *operators):
    """All rows that were observed of a kind."""
    return seen_in(driver.run(tables), kind, *operators)


def rows(count, seed=0):
    random = np.random.default_rng(seed)
    return pa.table({"k": random.integers(0, 9, count), "l": random.choice(["x", "y"], count)})


def sent(observed):
    """What arrives of what one task has observed."""
    report = TaskReport(operator="a", instance=0, sender=0, observed=observed)
    return Reports.from_parcel(report.to_parcel(0))


def pairs(table):
    return Counter(zip(table.column("k").to_pylist(), table.column("l").to_pylist(), strict=True))


def test_observations_of_operators_of_any_name_arrive_as_they_were():
    for about in (("a", "b"), ('it"s, größe',)):
        observation = Observation(Seen.PAIRS, about)
        arrived = sent([(observation, pa.table({"left": [1]}))])
        assert [observation] == list(arrived.observed)


def test_only_what_is_asked_for_is_observed(tmp_path):
    driver = Driver(tmp_path, job())

    assert all(not report.observed for report in driver.run({"s": rows(50)}))


@settings(max_examples=15)
@given(st.integers(0, 80), st.sampled_from((None, any_job.twice)))
def test_all_pairs_are_counted_where_all_tuples_are_looked_at(count, between):
    table = rows(count)
    with any_job.temporary() as folder:
        driver = Driver(folder, job(between=between), observes={Probe.PAIRS})

        found = Counter()
        for row in seen(driver, {"s": [table, table]}, Seen.PAIRS, "a", "b"):
            found[row["left"], row["right"]] += row["count"]

    times = 4 if between is any_job.twice else 2
    assert {pair: times * n for pair, n in pairs(table).items()} == dict(found)


def test_one_tuple_of_several_stands_for_them(tmp_path):
    driver = Driver(tmp_path, job(parallelism=1), observes={Probe.PAIRS}, looked_at=40)
    table = pa.table({"k": [1] * 400, "l": ["x"] * 400})

    (row,) = seen(driver, {"s": table}, Seen.PAIRS, "a", "b")

    assert {"left": 1, "right": "x", "count": 400} == row


class TestTuplesThatAreLookedAtInSeveralGoes:
    """A task packs what it emits in pieces, and tells once what was in all of them."""

    def told(self, pieces, **settings):
        """What is reported of tuples that come in these pieces."""
        layout = Layout.of(job(), any_job.CLUSTER, Plan())
        given = Settings(observes=ALL, **settings)
        work = JobContext(layout, {}, Location("/nowhere"), given)
        probe = EdgeProbe(work, layout.topology.edge("a", "b"), 0)
        for piece in pieces:
            probe.look(piece, KeyBatch.read(piece.column("l")))
        told = probe.tell()
        assert [] == probe.tell()  # there is nothing more to tell
        return [table for seen, table in told if seen.kind is Seen.PAIRS], told

    def counted(self, tables):
        found = Counter()
        for row in (row for table in tables for row in table.to_pylist()):
            found[row["left"], row["right"]] += row["count"]
        return found

    @given(st.lists(st.integers(0, 30), max_size=5))
    def test_a_pair_is_told_once(self, sizes):
        pieces = [rows(size, seed) for seed, size in enumerate(sizes)]

        tables, _ = self.told(pieces)

        assert sum(map(pairs, pieces), Counter()) == self.counted(tables)
        assert int(sum(sizes) > 0) == len(tables)
        assert len(self.counted(tables)) == sum(map(len, tables))

    def test_each_tuple_stands_for_as_many_as_it_was_chosen_from(self, monkeypatch):
        monkeypatch.setattr(probes, "PACKED_AT_ONCE", 400)
        few = pa.table({"k": [3] * 40, "l": ["x"] * 40})
        large = pa.table({"k": [1] * 360, "l": ["x"] * 360})
        small = pa.table({"k": [1] * 60 + [2] * 20, "l": ["x"] * 80})

        tables, told = self.told([few, large, small, small.slice(0, 30)], looked_at=40)

        # All of the first 40, one of ten where there are 400, one of twenty of those after them.
        assert {(3, "x"): 40, (1, "x"): 360 + 60 + 30, (2, "x"): 20} == self.counted(tables)
        (traffic,) = [table for seen, table in told if seen.kind is Seen.TRAFFIC]
        assert 40 + 360 + 80 + 30 == pc.sum(traffic.column("tuples")).as_py()

    @pytest.mark.parametrize("cycle", [10, 40, 100])
    def test_of_keys_that_come_in_turns_each_is_seen(self, cycle):
        turns = np.arange(80_000) % cycle
        table = pa.table({"k": turns, "l": turns % 2})

        tables, _ = self.told([table.slice(n, 10_000) for n in range(0, 80_000, 10_000)])

        found = self.counted(tables)
        assert 80_000 == sum(found.values())
        # About one of 16 is looked at: what is told of a key has a variance of 16 times its count.
        each = 80_000 / cycle
        expected = {(key, key % 2): each for key in range(cycle)}
        assert expected == pytest.approx(dict(found), abs=6 * np.sqrt(16 * each))

    def test_no_more_of_the_last_tuples_are_looked_at_than_of_those_before(self, monkeypatch):
        monkeypatch.setattr(probes, "PACKED_AT_ONCE", 4000)
        pieces = [pa.table({"k": range(n, n + 2000), "l": ["x"] * 2000}) for n in (0, 2000)]
        last = pa.table({"k": range(4000, 4200), "l": ["x"] * 200})

        tables, _ = self.told([*pieces, last], looked_at=40)

        weights = {left: count for (left, _), count in self.counted(tables).items()}
        assert {100} == {weights[left] for left in weights if 2000 <= left < 4000}
        assert [200] == [weights[left] for left in weights if left >= 4000]

    def test_traffic_is_counted_alike_of_few_cells_and_of_many(self, monkeypatch):
        pieces = [rows(90, seed) for seed in range(3)]
        tables = []
        for cells in (0, 1 << 20):  # for each sample: sorted, or counted in an array of all
            monkeypatch.setattr(probes, "_CELLS_COUNTED", cells)
            _, told = self.told(pieces, looked_at=40)
            tables += [table for seen, table in told if seen.kind is Seen.TRAFFIC]

        assert 2 == len(tables)
        assert tables[0].equals(tables[1])
        assert 270 <= pc.sum(tables[0].column("tuples")).as_py() < 300

    def test_keys_may_come_in_columns_of_several_types(self):
        wide = rows(20)
        narrow = wide.set_column(0, "k", wide.column("k").cast(pa.int8()))
        floats = wide.set_column(0, "k", wide.column("k").cast(pa.float64()))

        tables, _ = self.told([wide, narrow, floats, wide])

        assert {pair: 3 * n for pair, n in pairs(wide).items()} == self.counted(tables)

    @pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.binary()])
    def test_keys_may_come_as_dictionaries_of_other_words_in_each_piece(self, kind):
        pieces = []
        for words in (["u", "v"], ["w", "u"], ["v"]):
            keys = pa.array(words * 3).cast(pa.binary() if kind == pa.binary() else pa.string())
            pieces.append(pa.table({"k": keys.cast(kind), "l": ["x"] * len(keys)}))
        coded = [piece.set_column(0, "k", piece["k"].dictionary_encode()) for piece in pieces]

        expected, _ = self.told(pieces)
        _, told = self.told(coded)

        tables = sent(told).observed[Observation.of("pairs", "a", "b")]
        assert 9 + 6 == sum(self.counted(expected).values())
        assert self.counted(expected) == self.counted(tables)

    def test_tables_of_several_types_arrive_as_one(self):
        wide = rows(20)
        _, told = self.told([wide, wide.set_column(0, "k", wide.column("k").cast(pa.int8()))])

        (table,) = sent(told).observed[Observation.of("pairs", "a", "b")]

        assert {pair: 2 * n for pair, n in pairs(wide).items()} == self.counted([table])

    def test_not_more_than_a_bounded_number_is_kept_waiting(self, monkeypatch):
        monkeypatch.setattr(probes, "_TOLD_AT_ONCE", 10)
        pieces = [rows(4, seed) for seed in range(7)]

        tables, _ = self.told(pieces)

        assert 3 == len(tables)
        assert sum(map(pairs, pieces), Counter()) == self.counted(tables)


def test_senders_look_at_different_tuples(tmp_path, monkeypatch):
    monkeypatch.setattr(collecting, "MERGED_FROM", 99)  # to see what each has told
    between = Topology.source("s").then(Operator("a", "k", 4, apply=TUPLES))
    between = between.then("f", parallelism=4, grouping=LocalOrShuffle())
    driver = Driver(tmp_path, between.then("b", key="l"), observes={Probe.PAIRS}, looked_at=4)
    table = pa.table({"k": np.arange(64), "l": np.arange(64)})

    found = seen(driver, {"s": table}, Seen.PAIRS, "a", "b")

    assert {1, 2, 3, 4, 5, 6} >= {row["count"] for row in found}  # four of 9 to 24 tuples
    assert 64 == sum(row["count"] for row in found)
    first = {}
    for report in driver.run({"s": table}):
        for observed in report.observed.get(Observation.of("pairs", "a", "b"), []):
            (sender,) = report.names
            first[sender] = observed.column("left").to_pylist()
    assert 4 == len(first)


def test_traffic_between_groups_is_counted_by_both_keys(tmp_path):
    driver = Driver(tmp_path, job(), observes={Probe.GROUPS})
    table = rows(100)

    found = Counter()
    for row in seen(driver, {"s": table}, Seen.TRAFFIC, "a", "b"):
        found[row["source"], row["target"]] += row["tuples"]

    expected = Counter(
        zip(
            hash_parts(table.column("k"), 8, seed=driver.checkpoint.seed).tolist(),
            hash_parts(table.column("l"), 4, seed=driver.checkpoint.seed).tolist(),
            strict=True,
        )
    )
    assert expected == found


def test_tuples_of_groups_are_all_counted(tmp_path):
    driver = Driver(tmp_path, job(), observes={Probe.GROUPS}, looked_at=2)
    table = rows(100)

    found = Counter()
    for report in rows_of(driver.run({"s": table})):
        assert 0 not in report.group_tuples
        if report.operator == "a":
            groups = report.groups.tolist(), report.group_tuples.tolist()
            found += Counter(dict(zip(*groups, strict=True)))

    assert Counter(hash_parts(table.column("k"), 8).tolist()) == found


COUNTS = st.sampled_from([-1, 0, 1, 2, 65_535, 65_536, 65_537])


@given(st.lists(COUNTS, max_size=30), st.integers(1, 12))
@example([0, 65_536, 1], 3)
def test_the_heaviest_keys_are_those_that_a_full_sort_finds(counts, most):
    numbers = np.array(counts, dtype=np.int64)

    found = heaviest(numbers, most)

    assert np.argsort(-numbers, kind="stable")[:most].tolist() == found.tolist()


def test_keys_are_reported_with_their_tuples_the_heaviest_if_there_are_many(tmp_path):
    table = pa.table({"k": [1] * 5 + [2] * 9 + [3] * 2 + [4] * 7, "l": ["x"] * 23})
    driver = Driver(tmp_path, job(parallelism=1), observes={Probe.PAIRS}, most_keys=2)

    found = seen(driver, {"s": table}, Seen.KEYS, "a")

    assert [{"key": 2, "count": 9}, {"key": 4, "count": 7}] == found
    told = rows_of(driver.run({"s": table}))
    told = [report.hot_tuples.tolist() for report in told if report.operator == "a"]
    assert [[9, 7, 5, 2]] == told


def test_pairs_of_a_key_with_itself_are_counted(tmp_path):
    made = Topology.source("s").then(Operator("a", "k", 2, apply=TUPLES)).then("b", key="k")
    driver = Driver(tmp_path, made, observes=ALL)

    found = seen(driver, {"s": pa.table({"k": [1, 2, 2]})}, Seen.PAIRS, "a", "b")

    assert {(1, 1, 1), (2, 2, 2)} == {(r["left"], r["right"], r["count"]) for r in found}


def test_an_edge_that_calls_the_key_otherwise_is_observed_too(tmp_path):
    made = Topology(
        (Operator("s"), Operator("a", "k", apply=TUPLES), Operator("b", "m")),
        (Edge("s", "a"), Edge("a", "b", None, "l")),
    )
    driver = Driver(tmp_path, made, observes=ALL)

    found = seen(driver, {"s": rows(30)}, Seen.PAIRS, "a", "b")

    counts = {(row["left"], row["right"]): row["count"] for row in found}
    assert dict(pairs(rows(30))) == counts


def test_keys_of_two_columns_have_traffic_but_no_pairs(tmp_path):
    made = Topology.source("s").then(Operator("a", ("k", "l"), apply=TUPLES)).then("b", key="l")
    driver = Driver(tmp_path, made, observes=ALL)

    assert [] == seen(driver, {"s": rows(30)}, Seen.PAIRS, "a", "b")
    assert 30 == sum(r["tuples"] for r in seen(driver, {"s": rows(30)}, Seen.TRAFFIC, "a", "b"))
    assert [] == seen(driver, {"s": rows(30)}, Seen.KEYS, "a")


class TestWhatBecameOfAKey:
    """The work between two operators may do with the first one's key what it likes."""

    def observed(self, folder, between):
        driver = Driver(folder, job(between=between), observes=ALL)
        found = seen(driver, {"s": rows(40)}, Seen.PAIRS, "a", "b")
        driver.batch({"s": rows(40)})
        assert 40 == sum(driver.results("b").values())
        return sum(row["count"] for row in found)

    def test_it_may_be_dropped(self, tmp_path):
        assert 0 == self.observed(tmp_path, lambda batch: batch.select(["l"]))

    def test_it_may_be_made_no_key(self, tmp_path):
        def halved(batch):
            return batch.set_column(0, "k", pc.divide(pc.cast(batch.column("k"), pa.float64()), 2))

        assert 0 == self.observed(tmp_path, halved)

    @pytest.mark.parametrize("kept", [0, 3])
    def test_it_may_be_made_null(self, tmp_path, kept):
        def emptied(batch):
            few = pc.if_else(pc.less(batch.column("k"), kept), batch.column("k"), None)
            return batch.set_column(0, "k", few)

        left = sum(key < kept for key in rows(40).column("k").to_pylist())
        assert left == self.observed(tmp_path, emptied)
