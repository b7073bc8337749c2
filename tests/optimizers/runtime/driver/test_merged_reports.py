"""Reports that are merged on their way tell the driver what they would have told by themselves."""

import any_job
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers import Cluster, Plan, Topology
from optimizers.layout import Layout
from optimizers.runtime import work as work_module
from optimizers.runtime.driver.collector import EpochCollector, pairs_of
from optimizers.runtime.driver.delivery import check_delivery
from optimizers.runtime.driver.summary import summary_of
from optimizers.runtime.observe.observation import Observation
from optimizers.runtime.observe.table_sums import added_up
from optimizers.runtime.state.files_after import state_after
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task import collecting
from optimizers.runtime.task.collecting import collector, passed_on
from optimizers.runtime.task.reports import Reports, TaskReport
from optimizers.runtime.work import JobContext, Settings
from optimizers.statistics import Probe

NEVER = 1 << 30


def merged_somehow(data, parts):
    """The same reports, some of them merged, and some of those merged with others, in any order."""
    while len(parts) > 1 and data.draw(st.booleans()):
        parts = data.draw(st.permutations(parts))
        cut = data.draw(st.integers(2, len(parts)))
        one = Reports.merged(parts[:cut]).mapped(added_up)
        parts = [Reports.from_parcel(one.to_parcel(0)), *parts[cut:]]
    return data.draw(st.permutations(parts))


def told(layout, batches):
    """All that the driver makes of the reports of some batches."""
    epoch = EpochCollector(layout, 0)
    made = []
    for parts in batches:
        reports = Reports.merged(parts)
        check_delivery(reports, layout)
        epoch.add(reports, 0.5)
        hops = sorted(seen.about for seen in reports.observed if seen.kind == "pairs")
        pairs = [pairs_of(reports, hop) for hop in hops]
        state = state_after(layout.topology, {}, reports)
        made.append((summary_of(0, 0, 1.0, layout, reports), pairs, state))
    return epoch.statistics({}), made


@settings(max_examples=40)
@given(st.data(), st.integers(0, 1 << 20))
def test_statistics_are_the_same_of_any_job(data, seed):
    """With retries: of tasks that ran several times, tuples are of one attempt, reports of one."""
    drawn = data.draw(any_job.jobs(5, least=2))
    streams = data.draw(any_job.streams(drawn, 2, sizes=st.sampled_from((0, 9, 60))))
    script = any_job.Scripted([], frozenset(Probe))
    with any_job.temporary() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(collecting, "MERGED_FROM", NEVER)
        driver = any_job.Driver(folder, drawn.topology, script, every=99, looked_at=20)
        batches = []
        for stream in streams:
            assigned = driver.coordinator.assign()
            work, ticket = assigned.work, assigned.ticket
            batches.append(any_job.run_shuffled(work, ticket, stream, seed, attempts=2))
            driver.coordinator.commit(assigned, batches[-1], 1.0)

    expected = told(work.layout, batches)
    found = told(work.layout, [merged_somehow(data, parts) for parts in batches])

    assert expected == found


@settings(max_examples=30)
@given(st.data(), st.integers(0, 1 << 20), st.sampled_from((1, 2, 5)))
def test_a_job_whose_tasks_merge_reports_does_what_it_did(data, seed, merged_from):
    drawn = data.draw(any_job.jobs(5, least=2))
    streams = data.draw(any_job.streams(drawn, 2, sizes=st.sampled_from((9, 40))))
    results, edges = [], []
    for least in (NEVER, merged_from):
        script = any_job.Scripted([], frozenset(Probe))
        with any_job.temporary() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(collecting, "MERGED_FROM", least)
            driver = any_job.Driver(folder, drawn.topology, script, every=99)
            for stream in streams:
                assigned = driver.coordinator.assign()
                reports = any_job.run_shuffled(assigned.work, assigned.ticket, stream, seed)
                done = driver.coordinator.commit(assigned, reports, 1.0)
                edges.append((done.edges, [each.tuples for each in done.instances]))
            keyed = [op.name for op in drawn.topology.operators if op.keyed]
            results.append([any_job.results(drawn, driver.checkpoint, name) for name in keyed])

    assert results[0] == results[1]
    assert edges[: len(edges) // 2] == edges[len(edges) // 2 :]


class TestCollectors:
    @staticmethod
    def layout(tasks):
        job = Topology.source("s", parallelism=3).then(
            "a", key="k", parallelism=tasks, key_groups=max(tasks, 128)
        )
        return Layout.of(job, Cluster.uniform(4), Plan())

    @pytest.mark.parametrize(("tasks", "most"), [(1, 1), (2, 2), (4, 2), (24, 5), (1000, 32)])
    def test_are_about_the_root_of_the_tasks_and_all_alike(self, tasks, most):
        chosen = [collector(self.layout(tasks), 0, sender) for sender in range(1000)]

        found, counts = np.unique(chosen, return_counts=True)
        assert most == len(found)
        assert 0 <= found.min() <= found.max() < tasks
        assert counts.max() - counts.min() <= 1

    def test_of_the_last_stage_there_are_none(self):
        assert {0} == {collector(self.layout(5), 1, sender) for sender in range(9)}

    @staticmethod
    def reports(number):
        pairs = (
            Observation.of("pairs", "a", "b"),
            pa.table({"left": [7], "right": [8], "count": [1]}),
        )
        return [
            TaskReport(
                operator="s",
                instance=n % 3,
                sender=n,
                tuples=n,
                observed=[pairs, (Observation.of("trial", "s"), pa.table({"seconds": [n / 7]}))],
            )
            for n in range(number)
        ]

    def test_pass_few_on_as_they_are(self):
        layout = self.layout(100)
        parcels = [report.to_parcel(0) for report in self.reports(collecting.MERGED_FROM - 1)]

        passed = list(passed_on(layout, 0, parcels))

        assert [parcel.body for parcel in parcels] == [parcel.body for parcel in passed]
        assert [collector(layout, 0, parcel.sender) for parcel in parcels] == [
            parcel.task for parcel in passed
        ]

    @given(st.randoms(), st.integers(collecting.MERGED_FROM, 40))
    def test_merge_many_to_the_same_bytes_in_whatever_order_they_come(self, random, number):
        parcels = [report.to_parcel(0) for report in self.reports(number)]

        (one,) = passed_on(self.layout(100), 0, parcels)
        (other,) = passed_on(self.layout(100), 0, random.sample(parcels, number))

        assert one == other
        merged = Reports.from_parcel(one)
        assert number == len(merged)
        assert list(range(number)) == merged.numbers("tuples").tolist()
        (table,) = merged.observed[Observation.of("pairs", "a", "b")]
        assert [{"left": 7, "right": 8, "count": number}] == table.to_pylist()
        (table,) = merged.observed[Observation.of("trial", "s")]
        assert list(range(number)) == table.column("sender").to_pylist()


def sums(table, names, counted):
    found = {}
    for row in table.to_pylist():
        key = tuple(row[name] for name in names)
        found[key] = found.get(key, 0) + row[counted]
    return found


KEYS = st.integers(-3, 3) | st.just(1 << 40)
TEXTS = st.sampled_from(("", "ä", "b"))


@given(st.data())
def test_tables_are_added_up_by_what_they_count(data):
    kind, names, counted, columns = data.draw(
        st.sampled_from(
            (
                ("pairs", ("left", "right"), "count", (KEYS, TEXTS)),
                ("pairs", ("left", "right"), "count", (TEXTS, TEXTS)),
                ("keys", ("key",), "count", (TEXTS,)),
                ("keys", ("key",), "count", (KEYS,)),
                ("traffic", ("source", "target"), "tuples", (st.integers(0, 9), st.integers(0, 9))),
            )
        )
    )
    rows = data.draw(st.lists(st.tuples(*columns, st.integers(1, 1 << 40)), min_size=1))
    table = pa.table(dict(zip((*names, counted), map(list, zip(*rows, strict=True)), strict=True)))

    found = added_up(Observation.of(kind, "a", "b"), table)

    assert sums(table, names, counted) == sums(found, names, counted)
    assert len(found) == len(sums(table, names, counted))


def test_what_is_of_one_task_is_not_added_up():
    table = pa.table({"key": [1, 1], "count": [1.0, 2.0], "seconds": [3.0, 4.0]})

    assert added_up(Observation.of("costs", "a", "int", "each"), table) is table


class TestShares:
    """However many instances there are, together they tell the driver no more than so much."""

    @staticmethod
    def work(parallelism, **settings):
        job = Topology.source("s").then(
            "a", key="k", parallelism=parallelism, key_groups=max(parallelism, 128)
        )
        layout = Layout.of(job, Cluster.uniform(2), Plan())
        return JobContext(layout, {}, Location("/nowhere"), Settings(**settings))

    @given(st.integers(1, 2000))
    def test_of_all_instances_are_bounded(self, parallelism):
        work = self.work(parallelism)

        assert parallelism * work.most_keys("a") <= 1 << 17
        assert parallelism * work.looked_at("a") <= 1 << 17
        assert parallelism * work.most_pairs("a") <= 1 << 17

    def test_of_few_instances_are_what_the_settings_say(self):
        work = self.work(8)

        assert (1 << 12, 1 << 11) == (work.most_keys("a"), work.looked_at("a"))
        assert (3, 5) == (
            self.work(2000, most_keys=3).most_keys("a"),
            self.work(2000, looked_at=5).looked_at("a"),
        )

    @settings(max_examples=25)
    @given(st.integers(0, 1 << 20), st.integers(1, 60))
    def test_pairs_that_are_left_out_are_rarer_than_those_that_are_told(self, seed, most):
        """Of each task the heaviest: what is missing of a pair is at most total / (most + 1)."""
        random = np.random.default_rng(seed)
        made = Topology.source("s").then("a", key="k", parallelism=3).then("b", key="l")
        rows = pa.table(
            {"k": random.zipf(1.5, 200) % 20, "l": np.minimum(random.zipf(1.4, 200), 50)}
        )
        found = {}
        for share in (most, NEVER):
            with any_job.temporary() as folder, pytest.MonkeyPatch.context() as patch:
                patch.setattr(work_module, "_ALL_PAIRS", 3 * share)
                patch.setattr(work_module, "_LEAST", 1)
                driver = any_job.Driver(
                    folder, made, any_job.Scripted([], {Probe.PAIRS}), every=99, looked_at=NEVER
                )
                reports = Reports.merged(driver.run({"s": rows}))
                pairs = pairs_of(reports, ("a", "b"))
                keys = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
                found[share] = dict(zip(keys, pairs.counts.tolist(), strict=True))
        told, true = found[most], found[NEVER]

        assert len(told) <= 3 * most
        assert 200 == sum(true.values())
        assert all(true[pair] == count for pair, count in told.items())  # of one owner of "left"
        tallest = max((count for pair, count in true.items() if pair not in told), default=0)
        assert tallest <= 200 / (most + 1)
