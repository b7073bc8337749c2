"""Bad rows: exactly those are left out, counted or handed aside, once, whatever the function."""

import json
import logging
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from any_job import Driver, temporary
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import rows_of

from optimizers import Edge, OnError, Operator, Plan, Topology, TopologyError
from optimizers.errors import FoldError, FunctionError
from optimizers.folds import Count, EachKey, Emit, each_row
from optimizers.folds.rows import Batches
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.job_identity import Identity
from optimizers.runtime.observe.call_mode import CallMode
from optimizers.runtime.observe.cost_meter import CostMeter
from optimizers.runtime.task.bad_rows import ASIDE
from optimizers.runtime.task.row_text import row_texts
from optimizers.statistics import Probe

POISON = 13


def doubled(row):
    if row["x"] == POISON:
        raise ValueError("poison")
    return {"k": row["k"], "x": 2 * row["x"]}


def doubled_batch(batch):
    if pc.any(pc.equal(batch["x"], POISON)).as_py():
        raise ValueError("poison")
    return pa.record_batch({"k": batch["k"], "x": pc.multiply(batch["x"], 2)})


def doubled_late(batch):
    """Has yielded a part before it meets the poison: that part must not come twice."""
    for number in range(len(batch)):
        yield doubled_batch(batch.slice(number, 1))


FUNCTIONS = {
    "rows": each_row(doubled),
    "batch": doubled_batch,
    "generator": doubled_late,
}
TUPLES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 20)), min_size=1, max_size=40
)


def table(rows):
    keys, values = zip(*rows, strict=True)
    return pa.table({"k": pa.array(keys, pa.string()), "x": pa.array(values, pa.int64())})


def job(function, on_error, *, edge_key=None, parallelism=1):
    first = Operator("f", apply=function, parallelism=parallelism, on_error=on_error)
    middle = Topology.source("s").then(first, grouping=None, edge_key=edge_key)
    return middle.then("n", key="k", parallelism=3, apply=Count(), on_error=on_error)


def results(driver, operator):
    """What an operator says of its keys; nothing where none came yet."""
    return driver.results(operator) if len(driver.checkpoint.read(operator)) else {}


def asides(driver):
    """What the last commit says was handed aside, as (operator, reason, row)."""
    found = []
    for file in driver.checkpoint.last_commit().outputs:
        if file.aside:
            rows = pq.read_table(driver.checkpoint.location.path_of(file.path))
            assert rows.schema == file.schema == ASIDE
            assert {file.operator} == set(rows["operator"].to_pylist())
            found += rows.to_pylist()
    return found


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("observes", [(), (Probe.COSTS,)])
@settings(max_examples=15)  # each is a job on disk, and there are six of these tests
@given(batches=st.lists(TUPLES, min_size=1, max_size=3), edge_key=st.booleans())
def test_exactly_the_bad_rows_go_and_all_others_count(function, observes, batches, edge_key):
    key = "x" if edge_key else None
    with temporary() as folder:
        driver = Driver(
            folder, job(function, "aside", edge_key=key, parallelism=2), observes=observes
        )
        good = Counter()
        for number, rows in enumerate(batches):
            summary = driver.batch({"s": [table(rows)]})

            bad = Counter({"f": 0, "n": 0})
            expected = Counter()
            for k, x in rows:
                if x == POISON:
                    bad["f"] += 1
                    expected["f", "ValueError: poison", k, x] += 1
                elif k is None:
                    bad["n"] += 1
                    expected["n", "key 'k' is null on edge f -> n", k, 2 * x] += 1
                else:
                    good[k] += 1
            found = Counter()
            for row in asides(driver):
                assert number == row["batch"]
                tuples = json.loads(row["row"])
                found[row["operator"], row["reason"], tuples["k"], tuples["x"]] += 1
            assert expected == found
            assert dict(+bad) == dict(summary.aside)
            assert not summary.skipped
        assert dict(good) == results(driver, "n")


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_of_batches_is_asked_again_only_if_it_failed(function, tmp_path):
    asked = []

    def watched(batch):
        asked.append(len(batch))
        return doubled_batch(batch)

    rows = table([("a", x) for x in range(64) if x != POISON])
    Driver(tmp_path / "good", job(watched, "skip")).batch({"s": [rows]})
    assert 63 == sum(asked)

    asked.clear()
    rows = table([("a", x) for x in range(64)])
    summary = Driver(tmp_path / "bad", job(watched, "skip")).batch({"s": [rows]})
    assert {"f": 1} == summary.skipped
    assert sum(asked) <= 64 + 2 * 64


def test_what_is_skipped_is_counted_and_logged_with_an_example(tmp_path, caplog):
    driver = Driver(tmp_path, job(each_row(doubled), "skip"))
    rows = [("a", 1), ("b", POISON), (None, 3), ("a", POISON)]

    with caplog.at_level(logging.WARNING):
        summary = driver.batch({"s": [table(rows)]})
    driver.batch({"s": [table([("a", 1)])]})

    assert {"f": 2, "n": 1} == summary.skipped
    assert {} == driver.coordinator.batches[-1].skipped
    assert (3, 0) == (driver.coordinator.totals.skipped, driver.coordinator.totals.aside)
    assert {"a": 2} == results(driver, "n")
    assert [] == asides(driver)
    assert [
        (
            "batch 0: operator 'f' could not take 2 rows, which were left out, such as: "
            'ValueError: poison: {"k": "b", "x": 13}'
        ),
        (
            "batch 0: operator 'n' could not take 1 rows, which were left out, such as: "
            'key \'k\' is null on edge f -> n: {"k": null, "x": 6}'
        ),
    ] == [record.message for record in caplog.records]


def test_rows_of_a_batch_that_was_not_committed_do_not_count(tmp_path):
    driver = Driver(tmp_path, job(each_row(doubled), "aside"))
    rows = {"s": [table([("a", POISON), ("b", 1)])]}
    lost = driver.run(rows)
    again = driver.run(rows)

    driver.coordinator.commit(driver.assigned, again, 1.0)

    assert 1 == len(asides(driver))
    assert {"f": 1} == driver.coordinator.batches[-1].aside
    one, other = (
        {file.path for report in rows_of(reports) for file in report.output}
        for reports in (lost, again)
    )
    assert one
    assert not one & other


class TestByDefault:
    @pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
    def test_the_job_ends_with_the_row_the_operator_the_batch_and_a_remedy(
        self, tmp_path, function
    ):
        driver = Driver(tmp_path, job(function, "fail"))
        driver.batch({"s": [table([("a", 1)])]})

        with pytest.raises(FunctionError) as failed:
            driver.batch({"s": [table([("a", 1), ("b", 2), ("c", POISON), ("d", 4)])]})

        text = str(failed.value)
        assert text.startswith("operator 'f' raised ValueError: poison, at ")
        assert '; the row of batch 1: {"k": "c", "x": 13}; mend what makes' in text
        assert "on_error='skip'" in text
        assert "\n" not in text
        assert {"a": 1} == results(driver, "n")

    def test_a_row_without_a_key_is_named(self, tmp_path):
        driver = Driver(tmp_path, job(None, "fail"))

        with pytest.raises(FoldError) as failed:
            driver.batch({"s": [table([("a", 1), (None, 2), (None, 3)])]})

        text = str(failed.value)
        assert text.startswith("operator 'n': key 'k' is null on edge f -> n; 2 rows, the first of")
        assert 'of batch 0: {"k": null, "x": 2}; mend' in text

    def test_a_function_that_fails_on_all_rows_together_but_on_none_alone(self, tmp_path):
        def choosy(batch):
            if len(batch) > 2:
                raise ValueError("too many")
            return batch

        with pytest.raises(FunctionError, match=r"too many.*; 3 rows, the first of batch 0"):
            Driver(tmp_path / "a", job(choosy, "fail")).batch({"s": [table([("a", 1)] * 3)]})

        driver = Driver(tmp_path / "b", job(choosy, "skip"))
        assert {} == driver.batch({"s": [table([("a", 1)] * 3)]}).skipped
        assert {"a": 3} == results(driver, "n")

    def test_what_is_no_fault_of_a_row_ends_the_job_anyway(self, tmp_path):
        def full(batch):
            raise MemoryError

        for number, function in enumerate([full, each_row(full), lambda batch: 5]):
            driver = Driver(tmp_path / str(number), job(function, "skip"))
            with pytest.raises((FunctionError, FoldError)):
                driver.batch({"s": [table([("a", 1)])]})


class TestRowsOfFunctionsOfRows:
    def test_that_do_not_fit_the_declared_columns_are_bad(self, tmp_path):
        def parsed(row):
            value = {3: "three", 4: 2**70}.get(row["x"], row["x"])
            return [{"k": row["k"], "x": 0}, {"k": row["k"], "x": value}]

        columns = pa.schema([("k", pa.string()), ("x", pa.int64())])
        driver = Driver(tmp_path, job(each_row(parsed, output=columns), "aside"))

        summary = driver.batch({"s": [table([("a", 1), ("b", 3), ("a", 4), ("c", 5)])]})

        assert {"f": 2} == summary.aside
        assert {"a": 2, "c": 2} == results(driver, "n")
        assert [3, 4] == [json.loads(row["row"])["x"] for row in asides(driver)]
        assert "'three' (str) is not a value of type int64" in asides(driver)[0]["reason"]

    def test_that_fit_no_columns_at_all_are_bad(self, tmp_path):
        """No declared columns are needed to see that they are not: Arrow has no such values."""

        def parsed(row):
            odd = {3: "\ud800", 4: 2**70, 5: object()}
            return {"k": row["k"], "x": odd.get(row["x"], str(row["x"]))}

        driver = Driver(tmp_path, job(each_row(parsed), "aside"))

        summary = driver.batch({"s": [table([("a", 1), ("b", 3), ("a", 4), ("c", 2), ("c", 5)])]})

        assert {"f": 3} == summary.aside
        assert {"a": 1, "c": 1} == results(driver, "n")
        assert [3, 4, 5] == [json.loads(row["row"])["x"] for row in asides(driver)]

    def test_whose_errors_cannot_be_written_are_bad_like_others(self, tmp_path):
        class MuteError(Exception):
            def __str__(self):
                raise RuntimeError("no words")

        def raising(row):
            raise MuteError if row["x"] else ValueError("\ud800")

        driver = Driver(tmp_path, job(each_row(raising), "aside"))
        driver.batch({"s": [table([("a", 1), ("a", 0)])]})

        first, second = (row["reason"] for row in asides(driver))
        assert first.endswith("MuteError")
        assert second == "ValueError: ?"

    def test_that_are_none_are_bad(self, tmp_path):
        driver = Driver(tmp_path, job(each_row(lambda row: row if row["x"] else "?"), "skip"))

        assert {"f": 1} == driver.batch({"s": [table([("a", 1), ("a", 0)])]}).skipped

    @pytest.mark.parametrize("observes", [(), (Probe.COSTS,)])
    def test_whose_text_is_no_text_are_bad(self, tmp_path, observes):
        keys = pa.array([b"ok", b"\xff\xfe", b"ok"])
        text = pa.Array.from_buffers(pa.string(), 3, keys.buffers())
        rows = pa.table({"k": text, "x": pa.array([1, 2, 3])})
        driver = Driver(tmp_path, job(each_row(doubled), "aside", edge_key="x"), observes=observes)

        summary = driver.batch({"s": [rows]})

        assert {"f": 1} == summary.aside
        assert {"ok": 2} == results(driver, "n")
        assert {"k": "��", "x": 2} == json.loads(asides(driver)[0]["row"])


class TestFunctionsOfKeys:
    @staticmethod
    def largest(key, rows, state):
        values = rows["x"].to_pylist()
        if POISON in values:
            raise ValueError(f"poison at {key}")
        return max([state or 0, *values])

    def topology(self, emit, on_error="aside"):
        fold = EachKey(self.largest, pa.int64(), emit=emit)
        job = Topology.source("s").then("m", key="k", parallelism=2, apply=fold, on_error=on_error)
        return job.then("n", key="k", apply=Count())

    @pytest.mark.parametrize("emit", [Emit.CHANGES, Emit.TUPLES])
    @settings(max_examples=20)
    @given(batches=st.lists(TUPLES.map(lambda rows: [(k or "c", x) for k, x in rows]), max_size=3))
    def test_leave_the_state_of_a_bad_key_as_it_was(self, emit, batches):
        state, sent = {}, Counter()
        with temporary() as folder:
            driver = Driver(folder, self.topology(emit))
            for rows in batches:
                values = {}
                for k, x in rows:
                    values.setdefault(k, []).append(x)
                bad = 0
                for k, mine in values.items():
                    if POISON in mine:
                        bad += len(mine)
                    else:
                        state[k] = max([state.get(k, 0), *mine])
                        sent[k] += 1 if emit is Emit.CHANGES else len(mine)

                summary = driver.batch({"s": [table(rows)]})

                assert bad == summary.aside.get("m", 0) == len(asides(driver))
            if batches:
                assert state == results(driver, "m")
                assert dict(sent) == results(driver, "n")

    def test_that_send_rows_of_their_own_send_none_of_a_bad_key(self, tmp_path):
        def said(key, rows, state):
            return self.largest(key, rows, state), {"k": key[0]}

        fold = EachKey(said, pa.int64(), output=pa.schema([("k", pa.string())]))
        job = Topology.source("s").then("m", key="k", apply=fold, on_error="skip")
        driver = Driver(tmp_path, job.then("n", key="k", apply=Count()))

        driver.batch({"s": [table([("a", 1), ("b", POISON), ("c", 3), ("b", 2)])]})

        assert {"a": 1, "c": 3} == results(driver, "m")
        assert {"a": 1, "c": 1} == results(driver, "n")

    def test_name_the_key_where_they_end_the_job(self, tmp_path):
        driver = Driver(tmp_path, self.topology(Emit.CHANGES, "fail"))

        with pytest.raises(FunctionError, match=r"poison at .*the row of key \('b',\) of batch 0"):
            driver.batch({"s": [table([("a", 1), ("b", POISON)])]})


def test_keys_that_come_as_dictionaries_may_lack_a_word():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    rows = pa.table({"k": words, "x": pa.array([1, 2, 3, 4])})
    with temporary() as folder:
        driver = Driver(folder, job(None, "skip"))

        assert {"n": 2} == driver.batch({"s": [rows]}).skipped
        assert {"a": 2} == results(driver, "n")


def test_a_column_of_nothing_but_nulls_has_no_key(tmp_path):
    rows = pa.table({"k": pa.nulls(3), "x": pa.array([1, 2, 3])})
    driver = Driver(tmp_path, job(None, "skip"))

    assert {"n": 3} == driver.batch({"s": [rows]}).skipped


def test_the_column_that_lacks_is_named_also_where_the_edge_calls_it_otherwise(tmp_path):
    job = Topology(
        [Operator("s"), Operator("n", key=("k", "l"), on_error="aside")],
        [Edge("s", "n", key=("from", "to"))],
    )
    driver = Driver(tmp_path, job)

    driver.batch({"s": [pa.table({"from": ["a", None, None], "to": ["b", "c", None]})]})

    reasons = [row["reason"] for row in asides(driver)]
    assert ["key 'from' is null on edge s -> n"] * 2 == reasons


def test_what_becomes_of_bad_rows_may_be_changed_in_a_job_that_is_there(tmp_path):
    old, new = job(None, "fail"), job(None, "skip")

    assert Identity.of(old) == Identity.of(new)
    written = Topology.source("s").then("n", key="k", on_error="skip")
    assert written == Topology.from_json(written.to_json())
    assert "on_error" not in Topology.source("s").to_json()
    Driver(tmp_path, old).batch({"s": [table([("a", 1)])]})
    driver = Driver(tmp_path, new)
    driver.batch({"s": [table([("a", 1), (None, 1)])]})
    assert {"a": 2} == results(driver, "n")


def test_a_plan_keeps_it():
    changed = job(None, "aside").under(Plan(parallelism={"n": 2}))

    assert OnError.ASIDE is changed.operator("n").on_error


@pytest.mark.parametrize("wrong", ["ignore", None, 1, True])
def test_what_cannot_become_of_them_is_refused(wrong):
    with pytest.raises(TopologyError, match=r"on_error=.* is none of 'fail', 'skip', 'aside'"):
        Operator("a", on_error=wrong)
    assert OnError.SKIP is replace(Operator("a"), on_error="skip").on_error


def test_rows_are_told_as_json_that_anything_can_read():
    rows = pa.table(
        {
            "n": pa.array([1, None]),
            "f": pa.array([float("inf"), 0.5]),
            "b": pa.array([b"\x00\xff", None]),
            "t": pa.array([0, None], pa.timestamp("us", "UTC")),
            "d": pa.array([1050, None], pa.int64()).cast(pa.decimal128(21, 2)),
            "l": pa.array([[{"x": float("nan")}], []]),
        }
    )

    first, second = map(json.loads, row_texts(rows))

    assert {"n": 1, "f": "Infinity", "b": "AP8=", "d": "1050.00"} == {
        name: first[name] for name in "nfbd"
    }
    assert "1970-01-01T00:00:00+00:00" == first["t"]
    assert [{"x": "NaN"}] == first["l"]
    assert {"n": None, "f": 0.5, "b": None, "t": None, "d": None, "l": []} == second


def test_an_operator_at_the_end_has_both_its_output_and_its_bad_rows(tmp_path):
    job = Topology.source("s").then("f", apply=each_row(doubled), on_error="aside")
    driver = Driver(tmp_path, job)

    driver.batch({"s": [table([("a", 1), ("b", POISON), ("c", 3)])]})

    files = driver.checkpoint.last_commit().outputs
    assert {False: 2, True: 1} == {file.aside: file.rows for file in files}
    (good,) = [file for file in files if not file.aside]
    rows = pq.read_table(driver.checkpoint.location.path_of(good.path)).to_pylist()
    assert [2, 6] == sorted(row["x"] for row in rows)
    assert [POISON] == [json.loads(row["row"])["x"] for row in asides(driver)]


class TestCosts:
    """A bad row costs what it cost, and does not keep others from being told apart."""

    ROWS = table([("a", 1), ("b", POISON), ("c", 3), ("d", 4)]).to_batches()[0]

    def told(self, function, way, clock):
        refused = []
        meter = CostMeter("f", function, 10, way, clock)
        work = Batches(meter.function, refuse=lambda rows, _: refused.append(rows), fatal=False)
        made = list(meter.measured(work, self.ROWS, ["k"]))
        assert [POISON] == [rows["x"][0].as_py() for rows in refused]
        assert 3 == sum(map(len, made))
        return {(name.kind, *name.about): table.to_pylist() for name, table in meter.tell()}

    def test_of_functions_of_batches_stay_those_of_each_row(self):
        told = self.told(doubled_batch, CallMode.APART, None)

        assert [("costs", "f", "str", "each")] == list(told)

    def test_of_functions_of_rows_count_the_bad_row_at_its_place(self):
        now = [0.0]

        def slow(row):
            now[0] += {"a": 1, "b": 50, "c": 3, "d": 4}[row["k"]]
            return doubled(row)

        told = self.told(each_row(slow), CallMode.UNKNOWN, lambda: now[0])

        rows = told["costs", "f", "str", "each"]
        assert {"a": 1, "b": 50, "c": 3, "d": 4} == {r["key"]: r["seconds"] for r in rows}


def test_runs_alone_without_a_driver(tmp_path):
    """A task that finds nothing bad writes no file for it."""
    driver = Driver(tmp_path, job(each_row(doubled), "aside"))
    assignment = driver.coordinator.assign()

    reports = run_batch(assignment.work, assignment.ticket, {"s": [[]]})

    assert [()] == list({report.output for report in rows_of(reports)})
    assert not any(report.bad for report in rows_of(reports))
