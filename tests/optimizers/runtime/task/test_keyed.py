"""Keyed instances: state from batch to batch, from instance to instance, in memory and in files."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import any_job
import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import rows_of

from grouping.groupings import PartialKey
from grouping.hashing import hash_parts
from grouping.routing_table import RoutingTable
from optimizers import Operator, Plan, Topology
from optimizers.errors import CheckpointError, FoldError, InvalidValueError, StateError
from optimizers.folds import Count, EachKey, Emit, Last, Sum, Together
from optimizers.folds.fold import Fold
from optimizers.layout import Instance
from optimizers.runtime.state import cache
from optimizers.runtime.state.file import FileKind, read_states
from optimizers.runtime.state.keys import check_rows
from optimizers.runtime.task import keyed
from optimizers.runtime.task.parcels import Parcel, as_batches, packed
from optimizers.runtime.task.task import run_task
from optimizers.runtime.work import Settings


@pytest.fixture(autouse=True)
def _nothing_is_known():
    cache.forget()


def job(parallelism=3, fold=None, key="k", **settings):
    operator = Operator("a", key, parallelism, apply=fold or Count(), key_groups=16, **settings)
    grouping = PartialKey() if operator.partial else None
    return Topology.source("in").then(operator, grouping=grouping)


def keys(*numbers):
    return {"in": pa.table({"k": pa.array(numbers, pa.int64())})}


def reports(driver, tables):
    return {r.instance: r for r in rows_of(driver.run(tables)) if r.operator == "a"}


def state(driver, instance):
    files = driver.checkpoint.last_commit().state["a"][instance]
    return read_states(driver.checkpoint.location, files) if files else None


class TestFiles:
    def test_an_instance_without_tuples_writes_nothing(self, tmp_path):
        driver = Driver(tmp_path, job())
        driver.batch(keys(*range(50)))
        before = driver.checkpoint.location.list("state")

        found = reports(driver, keys())

        assert {None} == {report.state for report in found.values()}
        assert before == driver.checkpoint.location.list("state")

    def test_only_keys_that_came_are_written_again(self, tmp_path):
        driver = Driver(tmp_path, job(1))
        driver.batch(keys(*range(50)))
        driver.batch(keys(3, 3, 7))

        first, second = driver.checkpoint.last_commit().state["a"][0]

        assert (FileKind.BASE, 50) == (first.kind, first.rows)
        assert (FileKind.DELTA, 2) == (second.kind, second.rows)

    def test_all_keys_are_written_anew_when_changes_are_many(self, tmp_path):
        driver = Driver(tmp_path, job(1))
        kinds = []
        for number in range(25):
            driver.batch(keys(number % 5))
            kinds.append([f.kind for f in driver.checkpoint.last_commit().state["a"][0]])

        assert [FileKind.BASE] == kinds[0]
        assert any(len(one) > len(other) for one, other in pairwise(kinds))
        assert all(len(files) <= 18 for files in kinds)
        assert dict.fromkeys(range(5), 5) == driver.results("a")

    def test_a_report_tells_of_which_columns_its_state_is(self, tmp_path):
        driver = Driver(tmp_path, job(1))
        driver.batch(keys(1, 2, 3))

        (report,) = reports(driver, keys(3, 4)).values()

        assert (("place", "uint64"), ("key_0", "int64"), ("value_count", "int64")) == report.columns
        assert (2, [1, 1], 2) == (report.tuples, report.hot_tuples.tolist(), report.emitted)

    def test_two_attempts_write_files_of_their_own(self, tmp_path):
        driver = Driver(tmp_path, job(1))

        one, other = (reports(driver, keys(1, 2))[0].state for _ in range(2))

        assert one.path != other.path
        assert replace(one, path=other.path) == other


class TestStateInMemory:
    """What a process remembers may be of any attempt, of any driver, and of any batch."""

    def test_is_what_the_files_hold(self, tmp_path):
        driver = Driver(tmp_path, job(1, Last("n")))
        random = np.random.default_rng(0)
        for _ in range(25):
            k = random.integers(0, 30, 9)
            driver.batch({"in": pa.table({"k": k, "n": k * 7})})
            files = driver.checkpoint.last_commit().state["a"][0]
            location, instance = driver.checkpoint.location, Instance("a", 0)

            known = cache.state_in(location, instance, files)
            cache.forget()
            read = cache.state_in(location, instance, files)

            check_rows(known)
            assert known.equals(read)
            assert known.schema.equals(read.schema, check_metadata=True)

    def test_is_used_without_reading(self, tmp_path, monkeypatch):
        driver = Driver(tmp_path, job(1))
        driver.batch(keys(1, 2))
        monkeypatch.setattr(cache, "read_states", None)

        driver.batch(keys(2))

        monkeypatch.undo()
        assert {1: 1, 2: 2} == driver.results("a")

    def test_of_an_attempt_that_was_not_committed_is_not_used(self, tmp_path):
        driver = Driver(tmp_path, job(1))
        driver.batch(keys(1))
        committed = driver.run(keys(1))
        driver.run(keys(1, 1, 1, 5))  # another attempt, of which nothing is used
        driver.coordinator.commit(driver.assigned, committed, 1.0)

        driver.batch(keys(1))

        assert {1: 3} == driver.results("a")

    def test_of_another_checkpoint_is_not_used(self, tmp_path):
        one, other = (Driver(tmp_path / name, job(1)) for name in "xy")
        for driver, number in ((one, 1), (other, 2), (one, 3), (other, 4)):
            driver.batch(keys(number))

        assert {1: 1, 3: 1} == one.results("a")
        assert {2: 1, 4: 1} == other.results("a")

    def test_of_several_checkpoints_is_kept_side_by_side(self, tmp_path, monkeypatch):
        drivers = [Driver(tmp_path / name, job(1)) for name in "xy"]
        for driver in drivers:
            driver.batch(keys(1))
        monkeypatch.setattr(cache, "read_states", None)

        for driver in drivers:
            driver.batch(keys(1))

        monkeypatch.undo()
        assert [{1: 2}, {1: 2}] == [driver.results("a") for driver in drivers]

    def test_of_an_instance_that_was_away_is_not_used(self, tmp_path):
        plans = [Plan(), Plan(parallelism={"a": 1}), Plan(parallelism={"a": 3}), Plan()]
        driver = Driver(tmp_path, job(3), plans)
        for _ in range(4):
            driver.batch(keys(*range(20)))

        assert dict.fromkeys(range(20), 4) == driver.results("a")

    def test_is_forgotten_when_it_is_too_much_the_oldest_first(self, tmp_path, monkeypatch):
        driver = Driver(tmp_path, job(1))
        driver.batch(keys(*range(100)))
        files = driver.checkpoint.last_commit().state["a"][0]
        location = driver.checkpoint.location
        table = state(driver, 0)
        most = table.nbytes * 5 // 2
        reads = []
        monkeypatch.setattr(cache, "read_states", lambda *_: reads.append(1))
        cache.forget()
        for number in (0, 1, 0, 2):
            cache.keep(location, Instance("a", number), files, table, most=most)
        cache.keep(location, Instance("a", 9), files, pa.concat_tables([table] * 3), most=most)
        assert table.nbytes * 2 == cache.kept()

        for number, known in ((0, True), (1, False), (2, True)):
            before = len(reads)
            cache.state_in(location, Instance("a", number), files)
            assert known == (len(reads) == before)

    @pytest.mark.parametrize(("most", "sharing"), [(0, 1), (20_000, 1), (80_000, 4)])
    def test_of_all_instances_is_no_more_than_the_setting_says(self, tmp_path, most, sharing):
        driver = Driver(tmp_path, job(7), resident=most, sharing=sharing)
        for batch in range(6):
            driver.batch(keys(*range(batch * 300, batch * 300 + 300)))
            assert cache.kept() <= most // sharing
        assert (cache.kept() > 0) == (most > 0)
        assert dict.fromkeys(range(1800), 1) == driver.results("a")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"resident": -1},
            {"resident": 1.5},
            {"sharing": 0},
            {"parcel": 0},
            {"parcel_bytes": 0},
        ],
    )
    def test_is_of_a_size_that_means_something(self, wrong):
        with pytest.raises(InvalidValueError, match=next(iter(wrong))):
            Settings(**wrong)

    @settings(max_examples=25)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8), st.data())
    def test_is_never_wrong_whatever_was_run_before(self, steps, data):
        """Instances come and go, attempts are lost, and memories of any of them stay."""
        with any_job.temporary() as folder:
            plans = [Plan()] + [Plan(parallelism={"a": count}) for _, count in steps]
            driver = Driver(folder, job(2), plans)
            true = Counter()
            for lost, _ in steps:
                numbers = data.draw(st.lists(st.integers(0, 9), max_size=6))
                for _ in range(lost):
                    driver.run(keys(*data.draw(st.lists(st.integers(0, 9), max_size=6))))
                driver.batch(keys(*numbers))
                true.update(numbers)
            if true:
                assert dict(true) == driver.results("a")


class TestKeysThatChangeHands:
    def test_leave_one_instance_and_come_to_another(self, tmp_path):
        tables = [RoutingTable([5], [owner], 2) for owner in (1, 0)]
        plans = [Plan(), *(Plan(routing={"a": table}) for table in tables)]
        driver = Driver(tmp_path, job(2), plans)
        driver.batch(keys(5, 5, 8))

        moved = [driver.batch(keys()) for _ in range(2)]

        assert 1 == moved[1].taken_over
        assert {5: 2, 8: 1} == driver.results("a")
        assert 5 in state(driver, 0).column("key_0").to_pylist()
        assert 5 not in state(driver, 1).column("key_0").to_pylist()

    def test_are_marked_gone_once_and_for_all(self, tmp_path):
        tables = [RoutingTable([5], [owner], 2) for owner in (0, 1, 0, 1)]
        driver = Driver(tmp_path, job(2), [Plan(routing={"a": table}) for table in tables])
        for batch in range(4):
            cache.forget()
            driver.batch(keys(5, batch + 20))

        held = [state(driver, instance) for instance in range(2)]
        where = [5 in rows.column("key_0").to_pylist() for rows in held if rows is not None]
        assert [False, True] == where
        assert 4 == driver.results("a")[5]

    def test_only_files_of_those_who_have_them_are_read(self, tmp_path, monkeypatch):
        owner = int(hash_parts([5], 16)[0]) * 3 // 16
        table = RoutingTable([5], [(owner + 1) % 3], 3)
        driver = Driver(tmp_path, job(3), [Plan(), Plan(routing={"a": table})])
        driver.batch(keys(*range(60)))
        read = []
        real = keyed.read_states
        monkeypatch.setattr(
            keyed, "read_states", lambda *given, **how: read.append(given[1]) or real(*given, **how)
        )

        before = driver.checkpoint.last_commit()
        driver.batch(keys())

        assert [before.state["a"][owner]] == read

    def test_a_missing_file_of_theirs_is_an_error(self, tmp_path):
        driver = Driver(tmp_path, job(3), [Plan(), Plan(parallelism={"a": 1})])
        driver.batch(keys(*range(60)))
        for name in driver.checkpoint.location.list("state"):
            driver.checkpoint.location.delete(name)
        cache.forget()

        with pytest.raises(CheckpointError, match="missing"):
            driver.batch(keys())

    def test_a_key_that_comes_to_another_than_its_owner_is_refused(self, tmp_path):
        driver = Driver(tmp_path, job(2, Sum("n"), key=("k", "l")))
        assigned = driver.coordinator.assign()
        batch = pa.record_batch({"k": [1], "l": ["x"], "n": [3]})
        owner = int(assigned.work.layout.owners("a").assign([(1, "x")])[0])
        wrong = 1 - owner
        parcel = Parcel(wrong, 0, wrong, 0, 0, 1, packed(batch))

        with pytest.raises(StateError, match=rf"key .*1.*'x'.* came to a\[{wrong}\]") as refused:
            list(run_task(assigned.work, assigned.ticket, 1, wrong, as_batches([parcel])))

        assert [f"at a[{wrong}] in batch 0"] == refused.value.__notes__


class TestPartsOfKeys:
    def test_are_adopted_when_their_instance_is_no_more(self, tmp_path):
        plans = [Plan(), Plan(parallelism={"a": 2}), Plan(parallelism={"a": 5})]
        driver = Driver(tmp_path, job(5, Sum("n"), partial=True), plans)
        table = pa.table({"k": [1] * 40 + [2] * 3, "n": range(43)})
        first = driver.batch({"in": table})
        second = driver.batch({"in": table})
        third = driver.batch({"in": table})

        assert (5, 2, 5) == tuple(len(each.loads("a")) for each in (first, second, third))
        assert 0 < second.taken_over
        assert 0 == third.taken_over
        assert {1: 3 * sum(range(40)), 2: 3 * (40 + 41 + 42)} == driver.results("a")

    def test_are_adopted_beside_those_that_only_one_of_them_held(self, tmp_path):
        """Rare keys have one part, frequent ones several: both have to arrive."""
        plans = [Plan(), Plan(parallelism={"a": 1})]
        driver = Driver(tmp_path, job(2, partial=True), plans)
        numbers = [*range(40), *sorted([*range(8)] * 10)]
        driver.batch(keys(*numbers))
        held = [set(state(driver, n).column("key_0").to_pylist()) for n in range(2)]
        assert held[1] - held[0]
        assert held[0] & held[1]

        driver.batch(keys())

        assert dict(Counter(numbers)) == driver.results("a")
        check_rows(state(driver, 0))

    @pytest.mark.parametrize("together", [False, True])
    def test_cannot_be_taken_from_a_fold_that_cannot_merge(self, tmp_path, together):
        fold = EachKey(counted, pa.int64())
        if together:
            fold = Together(all=Count(), whole=Whole())
        plans = [Plan(), Plan(parallelism={"a": 2}), Plan(parallelism={"a": 4})]
        driver = Driver(tmp_path, job(3, fold, partial=True), plans)
        for _ in range(3):
            driver.batch(keys(1, 1, 1, 2))

        said = driver.coordinator.decisions
        assert ["", True, ""] == [said[0].refused, "merge" in said[1].refused, said[2].refused]
        assert 4 == driver.coordinator.layout.topology.operator("a").parallelism


class Whole(Count):
    """Counts, but cannot put parts of a count together."""

    merge = Fold.merge


def counted(key, rows, before):
    return (before or 0) + len(rows)


def test_keys_at_one_place_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed, "key_places", lambda codes, _: np.full(len(codes), 5, np.uint64))
    driver = Driver(tmp_path, job(1))
    expected = Counter()
    for batch in ((1, 2, 1), (3, 2), (), (4, 1, 5)):
        cache.forget()
        driver.batch(keys(*batch))
        expected.update(batch)

    assert dict(expected) == driver.results("a")


class TestTypes:
    @pytest.mark.parametrize("second", [["x"], [b"x"]])
    @pytest.mark.parametrize("resumed", [False, True])
    def test_a_key_of_another_type_is_refused_whoever_gets_it(self, tmp_path, second, resumed):
        driver = Driver(tmp_path, job(16))
        driver.batch(keys(1))
        driver = Driver(tmp_path, job(16)) if resumed else driver
        before = driver.checkpoint.last_commit()

        with pytest.raises(StateError, match=r"key_0|keys of type"):
            driver.batch({"in": pa.table({"k": second})})

        assert before == driver.checkpoint.last_commit()
        driver.batch(keys(1))
        assert {1: 2} == driver.results("a")

    def test_a_value_of_another_type_is_refused(self, tmp_path):
        driver = Driver(tmp_path, job(16, Sum("n")))
        driver.batch({"in": pa.table({"k": [1], "n": [1]})})

        with pytest.raises((StateError, FoldError), match="sum"):
            driver.batch({"in": pa.table({"k": [2, 1], "n": [1.5, 2.5]})})

    @pytest.mark.parametrize("key", ["a", b"a", 7])
    def test_words_of_a_dictionary_are_the_same_keys_as_those_written_out(self, tmp_path, key):
        plans = [Plan(), Plan(parallelism={"a": 2}), Plan()]
        driver = Driver(tmp_path, job(3, Count(emit=Emit.CHANGES)), plans)
        plain = pa.array([key, key])
        for column in (plain.dictionary_encode(), plain, plain.dictionary_encode()):
            cache.forget()
            driver.batch({"in": pa.table({"k": column})})

        assert {key: 6} == driver.results("a")

    @pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.binary(), "words"])
    def test_keys_of_any_kind_are_kept(self, tmp_path, kind):
        plans = [Plan(), Plan(parallelism={"a": 2}), Plan()]
        driver = Driver(tmp_path, job(3), plans)
        words = [b"a", b"b", b"c", b"a"] if kind == pa.binary() else ["a", "b", "c", "a"]
        for _ in range(3):
            cache.forget()
            column = pa.array(words)
            column = column.dictionary_encode() if kind == "words" else column.cast(kind)
            driver.batch({"in": pa.table({"k": column})})

        assert dict(Counter(words * 3)) == driver.results("a")
