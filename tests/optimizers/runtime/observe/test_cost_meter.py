"""What tuples cost, by key: told as it is, and what is made of them stays what it was."""

import any_job
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_clock import Clock, keys, true_cost

from optimizers.folds import each_row
from optimizers.folds.rows import Batches, as_batches
from optimizers.runtime.observe.call_mode import CallMode, CallTrial
from optimizers.runtime.observe.cost_meter import CostMeter
from optimizers.runtime.observe.observation import EACH, MEAN, Observation, Seen


def batch_of(column):
    return pa.record_batch({"k": column, "n": np.arange(len(column))})


def run(meter, *batches, work=None):
    work = work or as_batches(meter.function)
    return [made for batch in batches for made in meter.measured(work, batch, ["k"])]


def told(meter, *kinds):
    """What is told of each key: count and seconds."""
    rows = [
        row
        for name, table in meter.tell()
        for row in table.to_pylist()
        if name.kind is Seen.COSTS and name.about[2] in (kinds or (EACH, MEAN))
    ]
    return {row["key"]: (row["count"], row["seconds"]) for row in rows}


def means(meter):
    return {key: seconds / count for key, (count, seconds) in told(meter).items()}


def tried(*meters):
    """The way that is chosen after what these have tried."""
    trial = CallTrial()
    for meter in meters:
        for name, table in meter.tell():
            if name == Observation.of("trial", "w"):
                trial.add(table)
    return trial.calls.mode


class TestFunctionsOfBatches:
    def test_apart_each_tuple_has_what_it_cost(self):
        clock = Clock()
        meter = CostMeter("w", clock.busy(0.25, true_cost), 100, CallMode.APART, clock)
        column = keys(2_000)

        run(meter, batch_of(column[:1_000]), batch_of(column[1_000:]))

        found = means(meter)
        assert list(range(9)) == sorted(found)
        assert all(true_cost(key) < found[key] <= true_cost(key) + 0.25 for key in found)
        assert 2_000 == sum(clock.calls)
        assert np.isclose(clock.now, sum(seconds for _, seconds in told(meter, EACH).values()))

    def test_runs_of_one_key_go_together_and_long_ones_in_parts(self):
        clock = Clock()
        meter = CostMeter("w", clock.busy(0.0, true_cost), 100, CallMode.APART, clock)

        run(meter, batch_of(np.repeat([3, 5, 3], [2, 300, 1])))

        assert [2, 128, 128, 44, 1] == clock.calls

    def test_apart_some_runs_stand_for_others_between_them(self):
        clock = Clock()
        busy = clock.busy(0.0, true_cost)
        meter = CostMeter("w", busy, 100, CallMode.APART, clock, every=10)
        column = keys(20_000, most=4)

        made = run(meter, *[batch_of(part) for part in np.split(column, 4)])

        found = told(meter, EACH)
        assert {key: true_cost(key) for key in range(4)} == means(meter)
        assert 20_000 == sum(clock.calls) == pytest.approx(sum(n for n, _ in found.values()))
        expected = np.bincount(column)
        # Runs vary in length, so what is told of a key varies somewhat more than by its count.
        close = pytest.approx(expected, abs=6 * np.sqrt(2 * 10 * expected.max()))
        assert close == [found[key][0] for key in range(4)]
        runs = 1 + np.count_nonzero(np.diff(column))
        assert len(clock.calls) < 2.2 * runs / 10 + 8
        passed = pa.Table.from_batches(made)
        assert column.tolist() == passed["k"].to_pylist()
        assert [*range(5_000)] * 4 == passed["n"].to_pylist()

    @given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 5))
    def test_apart_all_tuples_are_stood_for_whatever_the_runs(self, lengths, every):
        clock = Clock()
        busy = clock.busy(0.0, true_cost)
        meter = CostMeter("w", busy, 100, CallMode.APART, clock, every=every)
        column = np.repeat(np.arange(len(lengths)) % 3, [200**length for length in lengths])

        made = run(meter, batch_of(column))

        assert np.arange(len(column)).tolist() == [
            n for part in made for n in part["n"].to_pylist()
        ]
        assert len(column) == pytest.approx(sum(count for count, _ in told(meter, EACH).values()))
        assert {key: true_cost(key) for key in means(meter)} == means(meter)
        assert len(column) == sum(clock.calls)
        if every == 1:
            ends = [
                place
                for place in range(1, len(column) + 1)
                if place == len(column) or column[place] != column[place - 1]
            ]
            starts = [0, *ends[:-1]]
            cut = [
                min(128, end - first)
                for start, end in zip(starts, ends, strict=True)
                for first in range(start, end, 128)
            ]
            assert cut == clock.calls

    def test_together_each_tuple_of_a_call_counts_alike(self):
        clock = Clock()
        meter = CostMeter("w", clock.busy(0.0, true_cost), 100, CallMode.TOGETHER, clock)

        run(meter, batch_of([0, 1, 1, 2]), batch_of([3]))

        assert {0: (1.0, 2.25), 1: (2.0, 4.5), 2: (1.0, 2.25), 3: (1.0, 8.0)} == told(meter, MEAN)
        assert {} == told(meter, EACH)
        assert [4, 1] == clock.calls

    @pytest.mark.parametrize("way", [CallMode.TOGETHER, CallMode.UNKNOWN])
    def test_where_all_count_alike_a_few_tuples_stand_for_all(self, way):
        clock = Clock()
        busy = clock.busy(0.0, lambda key: 1.0)
        meter = CostMeter("w", busy, 100, way, clock, looked_at=800)
        column = np.repeat([1, 2, 2, 3], 1_000)

        run(meter, batch_of(column))

        assert {1: (1_000, 1_000), 2: (2_000, 2_000), 3: (1_000, 1_000)} == told(meter)

    def test_of_tuples_that_are_told_apart_each_is_looked_at(self):
        clock = Clock()
        meter = CostMeter("w", clock.busy(0.0, true_cost), 9, CallMode.APART, clock, looked_at=1)

        run(meter, batch_of([0, 1, 2, 1]))

        assert {0: (1, 1), 1: (2, 4), 2: (1, 4)} == told(meter)

    @pytest.mark.parametrize(
        ("per_call", "way"),
        [(0.0, CallMode.APART), (10.0, CallMode.APART), (1_000.0, CallMode.TOGETHER)],
    )
    def test_a_few_tuples_alone_tell_what_a_call_costs(self, per_call, way):
        clock = Clock()
        meter = CostMeter("w", clock.busy(per_call, true_cost), 100, CallMode.UNKNOWN, clock)

        run(meter, batch_of(keys(1_000)))

        assert [128, *[1] * 32, 840] == clock.calls
        assert way is tried(meter)
        (mean,) = {round(mean, 9) for mean in means(meter).values()}
        assert mean < true_cost(8)
        assert {} == told(meter, EACH)

    def test_tuples_alone_do_not_make_their_keys_look_dear(self):
        clock = Clock()
        meter = CostMeter("w", clock.busy(1_000.0, lambda key: 0.0), 100, clock=clock)
        column = np.zeros(1_000, dtype=np.int64)
        column[128:160] = 7  # those that are tried alone

        run(meter, batch_of(column))

        assert {7: 2_000 / 968, 0: 2_000 / 968} == pytest.approx(means(meter))

    def test_what_several_instances_have_tried_adds_up(self):
        clock = Clock()
        busy = clock.busy(0.0, lambda key: 1.0)
        meters = [CostMeter("w", busy, 100, clock=clock) for _ in range(10)]
        for seed, meter in enumerate(meters):
            run(meter, batch_of(keys(20, seed)))

        # Four of twenty are tried alone, and it takes 32 of them.
        assert [CallMode.UNKNOWN] * 7 + [CallMode.APART] * 3 == [
            tried(*meters[: n + 1]) for n in range(10)
        ]

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_very_few_tuples_go_in_one_call(self, count):
        clock = Clock()
        meter = CostMeter("w", clock.busy(1.0, true_cost), 100, clock=clock)

        run(meter, *[batch_of(keys(count, seed)) for seed in range(20)])

        assert CallMode.UNKNOWN is tried(meter)
        assert [count] * 20 == clock.calls

    def test_one_long_wait_does_not_make_tuples_look_slow_alone(self):
        clock = Clock()
        busy = clock.busy(0.1, lambda key: 1.0)

        def work(batch):
            clock.now += 500.0 * (len(clock.calls) == 10)
            return busy(batch)

        meter = CostMeter("w", work, 100, clock=clock)
        run(meter, batch_of(keys(300)))

        assert CallMode.APART is tried(meter)

    @pytest.mark.parametrize("way", CallMode)
    def test_the_time_of_those_who_take_the_results_does_not_count(self, way):
        clock = Clock()

        def work(batch):
            for row in range(len(batch)):
                clock.now += 1.0
                yield batch.slice(row, 1)

        meter = CostMeter("w", work, 100, way, clock)
        for _ in meter.measured(as_batches(meter.function), batch_of(keys(5_000)), ["k"]):
            clock.now += 1_000.0

        assert {1.0} == set(means(meter).values())

    @pytest.mark.parametrize("way", [CallMode.UNKNOWN, CallMode.APART])
    def test_a_function_that_cannot_do_with_one_tuple_gets_all_of_them(self, way):
        def work(batch):
            if len(batch) == 1:
                raise ZeroDivisionError
            return batch

        meter = CostMeter("w", work, 100, way)
        batch = batch_of(keys(500))

        made = run(meter, batch, batch)

        assert CallMode.TOGETHER is tried(meter)
        assert 2 * batch.to_pylist() == pa.Table.from_batches(made).to_pylist()
        assert 1_000 == sum(count for count, _ in told(meter, MEAN).values())

    @pytest.mark.parametrize("odd", [0, 150])
    def test_so_does_one_that_makes_other_types_of_it(self, odd):
        def work(batch):  # infers types: a fraction makes it a column of floats
            rows = batch.to_pylist()
            return pa.RecordBatch.from_pylist(
                [{"m": 0.5 if row["n"] == odd else row["n"]} for row in rows]
            )

        meter = CostMeter("w", work, 100, CallMode.APART)

        made = run(meter, batch_of(np.arange(500)))

        expected = [0.5 if n == odd else n for n in range(500)]
        assert expected == [row["m"] for part in made for row in part.to_pylist()]
        assert CallMode.TOGETHER is tried(meter)

    @pytest.mark.parametrize("missing", [0, 150])
    def test_nothing_but_nulls_in_few_tuples_are_no_other_type(self, missing):
        def work(batch):  # infers types, of one tuple perhaps none
            rows = batch.to_pylist()
            return pa.RecordBatch.from_pylist(
                [{"m": None if row["n"] == missing else row["n"]} for row in rows]
            )

        meter = CostMeter("w", work, 100, CallMode.APART)

        made = run(meter, batch_of(np.arange(500)))

        expected = [None if n == missing else n for n in range(500)]
        assert expected == [row["m"] for part in made for row in part.to_pylist()]
        assert CallMode.TOGETHER is not tried(meter)

    def test_an_error_that_is_no_matter_of_how_many_comes_through(self):
        def work(batch):
            raise ZeroDivisionError

        for way in CallMode:
            with pytest.raises(ZeroDivisionError):
                run(CostMeter("w", work, 100, way), batch_of(keys(500)))


class TestFunctionsOfRows:
    def test_each_row_is_timed_within_one_call(self):
        clock = Clock()

        meter = CostMeter("w", each_row(clock.each_row), 100, clock=clock)
        column = keys(500)
        run(meter, batch_of(column))

        assert {key: true_cost(key) for key in set(column.tolist())} == means(meter)
        assert {} == told(meter, MEAN)

    def test_what_a_row_yields_is_its_own_work(self):
        clock = Clock()

        def work(row):
            for _ in range(row["k"]):
                clock.now += 1.0
                yield row

        meter = CostMeter("w", each_row(work), 100, clock=clock)
        made = run(meter, batch_of([3, 1, 3]), batch_of([0, 3]))

        assert {3: 3.0, 1: 1.0, 0: 0.0} == means(meter)
        assert 10 == sum(map(len, made))

    def test_what_is_done_for_all_rows_is_shared(self):
        clock = Clock()

        class Slow:
            schema = None

            def __call__(self, batch):
                clock.now += 10.0
                yield from work(batch)

        meter = CostMeter("w", each_row(lambda row: row), 100, clock=clock)
        work = as_batches(meter.function)
        run(meter, batch_of([1, 2, 1, 1]), work=Slow())

        assert {1: (3.0, 7.5), 2: (1.0, 2.5)} == told(meter, EACH)

    def test_of_many_rows_some_are_timed_and_stand_for_the_others(self):
        clock = Clock()

        meter = CostMeter("w", each_row(clock.each_row), 100, clock=clock, looked_at=100)
        made = run(meter, batch_of(np.repeat([1, 2, 2, 3], 1_000)))

        assert {1: (1_000, 2_000), 2: (2_000, 8_000), 3: (1_000, 8_000)} == told(meter, EACH)
        assert 4_000 == sum(map(len, made))

    def test_of_rows_that_come_in_turns_each_kind_is_timed(self):
        clock = Clock()

        meter = CostMeter("w", each_row(clock.each_row), 100, clock=clock, looked_at=500)
        run(meter, *[batch_of(np.arange(1_000) % 10)] * 10)

        found = told(meter, EACH)
        assert {key: true_cost(key) for key in range(10)} == pytest.approx(means(meter), rel=0.01)
        assert 10_000 == sum(count for count, _ in found.values())
        assert all(700 < count < 1_300 for count, _ in found.values())

    def test_of_rows_that_take_no_time_few_are_timed(self):
        clock = Clock()

        meter = CostMeter("w", each_row(clock.each_row), 100, clock=clock, every=40)
        run(meter, batch_of(np.repeat([1, 2, 2, 3], 1_000)))

        assert {1: (1_000, 2_000), 2: (2_000, 8_000), 3: (1_000, 8_000)} == told(meter, EACH)

    def test_of_later_batches_fewer_rows_are_timed(self):
        asked = []

        class Counting(Clock):
            def __call__(self):
                asked.append(self.now)
                return self.now

        meter = CostMeter("w", each_row(lambda row: row), 9, clock=Counting(), looked_at=100)
        times = []
        for _ in range(5):
            run(meter, batch_of(keys(1_000)))
            times.append(len(asked))

        # Twice for each, twice around all calls, and around each of two results, the second none.
        timed = (np.diff([0, *times]) - 2 - 4) / 2
        assert [100, 50, 34, 25, 20] == timed.tolist()
        assert 5_000 == sum(count for count, _ in told(meter).values())

    def test_rows_that_are_not_to_be_measured_leave_nothing_behind(self):
        clock = Clock()
        meter = CostMeter("w", each_row(lambda row: row), 100, clock=clock)
        work = as_batches(meter.function)

        list(meter.measured(work, batch_of([1, 2]), []))
        run(meter, batch_of([5]), work=work)

        assert {5: (1.0, 0.0)} == told(meter)

    def test_messages_name_the_function_that_was_given(self):
        meter = CostMeter("w", each_row(any_job.few_row), 100)

        assert repr(any_job.few) == repr(meter.function)

    def test_a_row_that_python_cannot_hold_has_taken_no_time(self):
        clock = Clock()

        def work(row):
            clock.now += 3.0
            return row

        meter = CostMeter("w", each_row(work), 100, clock=clock)
        when = pa.array([0, 1 << 62, 2], pa.timestamp("s"))  # which Python has no date for
        refused = []
        given = Batches(
            meter.function, refuse=lambda row, error: refused.append(len(row)), fatal=False
        )
        made = list(meter.measured(given, pa.record_batch({"k": [1, 2, 3], "when": when}), ["k"]))

        assert [1] == refused
        assert 2 == sum(map(len, made))
        assert {1: (1.0, 3.0), 2: (1.0, 0.0), 3: (1.0, 3.0)} == told(meter)


FUNCTIONS = st.sampled_from((
    any_job.odd, any_job.twice, any_job.moved, any_job.lean, any_job.few
))  # fmt: skip


@settings(max_examples=60)
@given(
    FUNCTIONS,
    st.sampled_from(CallMode),
    st.lists(st.sampled_from((1, 4, 20, 400, 1_500)), max_size=3),
    st.sampled_from((1, 7, 1_000)),
)
def test_what_comes_out_is_the_same_and_cut_the_same_whatever_the_clock_says(
    function, way, sizes, every
):
    batches = [
        any_job.rows_of(["a", "b", "c", "n"], seed, size).combine_chunks().to_batches()[0]
        for seed, size in enumerate(sizes)
    ]
    plain = as_batches(function)
    expected = [row for batch in batches for made in plain(batch) for row in made.to_pylist()]
    made = []
    for pace in (0.0, 1.0):
        times = np.random.default_rng(len(sizes)).exponential(pace, 1 << 15).cumsum()
        clock = iter(times.tolist()).__next__
        meter = CostMeter("w", function, 100, way, clock, every=every)
        work = as_batches(meter.function)
        parts = [part for batch in batches for part in meter.measured(work, batch, ["c"])]
        made.append([part.to_pylist() for part in parts])

    assert made[0] == made[1]
    assert any_job.counted(expected) == any_job.counted([row for part in made[0] for row in part])
