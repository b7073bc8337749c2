"""Crashes, retries, second drivers and lost parcels: the results are those of one quiet run."""

import tempfile

import any_job
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from optimizers import Topology
from optimizers.control.settings import Asking
from optimizers.errors import CheckpointError, DeliveryError, PenstockError
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task import collecting
from optimizers.runtime.task.parcels import REPORT, SCHEMA, Parcel, packed
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.work import Settings

SEEDS = st.integers(0, 1 << 20)


class JobThatCrashes(RuleBasedStateMachine):
    """One job, done by drivers that come and go; `batches` is the stream as its source keeps it."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.driver = self.rival = self.numbers = None
        self.assigned = self.reports = None
        self.batches = []
        self.done = 0

    def teardown(self):
        self.folder.cleanup()

    @initialize(data=st.data())
    def a_job(self, data):
        self.drawn = data.draw(any_job.jobs(4))
        self.reference = any_job.Reference(self.drawn)
        self.next_batch(data)

    def next_batch(self, data):
        (batch,) = data.draw(any_job.streams(self.drawn, 1))
        self.batches.append(batch)

    def begun(self, data):
        """A driver that goes on where the checkpoint ends, under an optimizer of its own."""
        topology = self.drawn.topology
        if data.draw(st.booleans()):
            topology = any_job.with_parallelism(
                topology,
                **{
                    operator.name: data.draw(st.integers(1, 5))
                    for operator in topology.operators
                    if operator.keyed
                },
            )
        checkpoint = Checkpoint.create_or_open(Location(self.folder.name), topology)
        last = checkpoint.last_commit()
        saved = checkpoint.plan_of(0 if last is None else last.batch + 1)
        declared = {operator.name: operator.parallelism for operator in topology.operators}
        numbers = dict(declared)
        if saved is not None:  # what was decided stays, but where the job declares another number
            numbers |= saved.plan.parallelism
            numbers |= dict(declared.items() - saved.declared.items())
        script = data.draw(any_job.scripts(self.drawn, 4, numbers))
        event(f"declared otherwise: {saved is not None and declared != saved.declared}")
        self.numbers = None if saved is None else numbers
        return Coordinator(
            topology,
            any_job.CLUSTER,
            any_job.Scripted(script, data.draw(any_job.PROBES)),
            checkpoint,
            asking=Asking(every=data.draw(st.integers(1, 2))),
            keep=data.draw(st.integers(1, 2)),
            settings=Settings(parcel=7),
        )

    def dies(self):
        self.driver = self.assigned = self.reports = None

    @property
    def stream(self):
        return self.batches[self.done]

    @precondition(lambda self: self.driver is None)
    @rule(data=st.data())
    def a_driver_begins(self, data):
        self.driver = self.begun(data)
        assert self.done == self.driver.next_batch

    @precondition(lambda self: self.driver is not None)
    @rule()
    def the_driver_assigns(self):
        why = self.why_refused(self.driver)
        saved = self.checkpoint.plan_of(self.done)
        refused = ""
        try:
            assigned = self.driver.assign()
        except CheckpointError as error:  # it would have written a plan
            refused = str(error)
        if refused:
            overtaken = saved is not None and saved.batch == self.done
            assert why in refused if why else (overtaken and "another plan" in refused)
            event("a driver that was overtaken cannot save a plan")
            self.dies()
            return
        assert self.done == assigned.ticket.batch
        if self.numbers is not None:
            job = self.driver.layout.topology
            assert self.numbers == {each.name: each.parallelism for each in job.operators}
            self.numbers = None
        if self.assigned is not None:
            assert self.assigned.work is assigned.work
            assert self.assigned.ticket == assigned.ticket
        self.assigned = assigned

    @precondition(lambda self: self.assigned is not None)
    @rule(seed=SEEDS, tasks=st.integers(0, 20))
    def some_tasks_run_and_the_driver_dies(self, seed, tasks):
        self.run(seed, last=tasks)
        self.dies()

    @precondition(lambda self: self.assigned is not None)
    @rule(seed=SEEDS)
    def all_tasks_run_some_of_them_twice(self, seed):
        self.reports = self.run(seed)

    @precondition(lambda self: self.assigned is not None)
    @rule(seed=SEEDS, data=st.data())
    def all_tasks_run_and_the_batch_is_committed(self, seed, data):
        self.reports = self.run(seed)
        self.the_driver_commits(data)

    def run(self, seed, *, last=None):
        assigned = self.assigned
        try:
            return any_job.run_shuffled(
                assigned.work, assigned.ticket, self.stream, seed, attempts=2, last=last
            )
        except StopIteration:  # that is how its machines fail
            return None

    @precondition(lambda self: self.reports is not None)
    @rule(data=st.data())
    def the_driver_commits(self, data):
        why = self.why_refused(self.driver, self.assigned)
        if why:
            with pytest.raises(CheckpointError, match=why):
                self.driver.commit(self.assigned, self.reports, 1.0)
            event(f"refused: {why}")
            self.dies()
            return
        self.driver.commit(self.assigned, self.reports, 1.0)
        assert all(not decision.refused for decision in self.driver.decisions)
        self.assigned = self.reports = None
        self.check(self.driver)
        self.next_batch(data)

    @rule()
    def the_driver_dies(self):
        self.dies()

    @precondition(lambda self: self.rival is None)
    @rule(data=st.data(), seed=SEEDS)
    def another_driver_begins_and_does_the_same_batch(self, data, seed):
        mine = self.numbers
        rival = self.begun(data)
        self.numbers = mine
        assigned = rival.assign()
        reports = any_job.run_shuffled(assigned.work, assigned.ticket, self.stream, seed)
        self.rival = rival, assigned, reports

    @precondition(lambda self: self.rival is not None)
    @rule(data=st.data())
    def the_other_driver_commits_if_it_is_the_first(self, data):
        (rival, assigned, reports), self.rival = self.rival, None
        before = self.checkpoint.last_commit()
        if assigned.ticket.batch == self.done and not self.why_refused(rival, assigned):
            rival.commit(assigned, reports, 1.0)
            self.check(rival)
            self.next_batch(data)
            # The first one cannot commit what is done already, and has to begin again.
            if self.reports is not None:
                with pytest.raises(CheckpointError, match="is done already"):
                    self.driver.commit(self.assigned, self.reports, 1.0)
            self.dies()
        else:
            with pytest.raises(
                CheckpointError, match=r"another driver|is in force|is missing|rewritten"
            ):
                rival.commit(assigned, reports, 1.0)
            assert before == self.checkpoint.last_commit()

    def why_refused(self, driver, assigned=None):
        """Words of why a driver may not write any more; None if it may."""
        last = self.checkpoint.last_commit()
        if last is not None and driver.committed.number != last.number:
            return "rewritten"  # or it is not the next batch, which the machine never tries
        saved = self.checkpoint.plan_of(self.done)
        if assigned is None or saved.number == (assigned.planned, assigned.plan_revision):
            return None
        return "is in force"

    @precondition(lambda self: self.done)
    @rule(keep=st.integers(1, 3))
    def files_of_no_use_are_removed(self, keep):
        self.checkpoint.clean(keep)
        self.compare(self.checkpoint)

    @precondition(lambda self: self.done)
    @rule()
    def state_is_written_anew_while_nobody_works(self):
        self.dies()
        self.rival = None
        self.checkpoint.compact()
        self.compare(self.checkpoint)

    @precondition(lambda self: self.done)
    @rule(keep=st.integers(1, 3))
    def state_is_written_anew_beside_whoever_works(self, keep):
        self.checkpoint.compact()
        self.checkpoint.clean(keep)
        self.compare(self.checkpoint)

    @property
    def checkpoint(self):
        return Checkpoint.open(Location(self.folder.name))

    def check(self, driver):
        """Compare what the batch has left with what it had to."""
        rows = {source: any_job.rows_in(parts) for source, parts in self.stream.items()}
        _, emitted = self.reference.run(rows)
        checkpoint = self.checkpoint
        sinks = self.drawn.topology.sinks
        left = {name: any_job.counted(emitted[name]) for name in sinks if emitted[name]}
        assert left == any_job.outputs_of(checkpoint)
        self.compare(checkpoint)
        self.done += 1
        assert self.done == driver.next_batch
        event(f"{self.done} batches")

    def compare(self, checkpoint):
        for name, state in self.reference.state.items():
            assert state == any_job.results(self.drawn, checkpoint, name)


TestJobThatCrashes = JobThatCrashes.TestCase
TestJobThatCrashes.settings = settings(max_examples=40, stateful_step_count=20)


def parcels_of(batches):
    """All parcels, each as a dictionary of its fields."""
    return pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()


def as_batch(parcels):
    return pa.RecordBatch.from_pylist(parcels, schema=SCHEMA)


def other_tuples(parcel):
    """The body of a parcel whose first tuple is another one."""
    table = Parcel(**parcel).tuples()
    place, column = next(
        (place, column)
        for place, column in enumerate(table.columns)
        if pa.types.is_int64(column.type)
    )
    numbers = [0 if number is None else number for number in column.to_pylist()]
    numbers[0] ^= 4
    changed = table.set_column(place, table.column_names[place], pa.array(numbers))
    (batch,) = changed.combine_chunks().to_batches()
    return packed(batch).to_pybytes()


CHANGES = (
    "dropped",
    "doubled",
    "task",
    "edge",
    "target",
    "sender",
    "number",
    "rows",
    "body",
    "cut",
)


def can_be(way, parcel, layout, stage, *, of_reports):
    """Whether it would be noticed if this parcel, or report, were lost or changed."""
    if parcel["edge"] != REPORT:
        target = layout.topology.edges[parcel["edge"]].target
        # On its way to a later stage any task will do: it gets there all the same, and whole.
        return not of_reports and (way != "task" or layout.stage_of[target] == stage)
    report = Reports.from_parcel(Parcel(**parcel))
    # How many partitions a source has is not known: of one that sent nothing nothing is missed.
    missed = any(layout.stage_of[name] for name in report.operators) or len(report.sent)
    return of_reports and (way == "doubled" or bool(missed))


def changed(parcel, way, layout, stage, random):
    """What arrives in place of a parcel; as many as arrive."""
    job = layout.topology
    edge = job.edges[parcel["edge"]] if parcel["edge"] != REPORT else None
    match way:
        case "dropped":
            return []
        case "doubled":
            return [parcel, parcel]
        case "task":
            value = int(random.integers(len(layout.stages[stage])))
        case "edge":
            value = int(random.integers(len(job.edges)))
        case "target":
            value = int(random.integers(layout.topology.operator(edge.target).parallelism))
        case "sender" | "number":
            value = int(random.integers(3))
        case "rows":
            value = parcel["rows"] + 1
        case "body":
            value = other_tuples(parcel)
        case "cut":
            way, value = "body", parcel["body"][: int(random.integers(len(parcel["body"])))]
        case _:
            raise AssertionError(way)
    return [{**parcel, way: value}]


@settings(max_examples=70)
@given(st.data(), st.sampled_from(CHANGES), SEEDS, st.booleans(), st.sampled_from((1, 2, 8)))
def test_a_parcel_that_is_lost_doubled_or_changed_lets_nothing_be_committed(
    data, way, seed, of_reports, merged_from
):
    drawn = data.draw(any_job.jobs(4, least=2))
    batches = data.draw(any_job.streams(drawn, 2, sizes=st.sampled_from((1, 9, 40))))
    of_reports = of_reports and way in {"dropped", "doubled"}
    random = np.random.default_rng(seed)
    tampered = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(collecting, "MERGED_FROM", merged_from)
        checkpoint = Checkpoint.create_or_open(Location(folder), drawn.topology)
        script = any_job.Scripted(data.draw(any_job.scripts(drawn, 2)))
        coordinator = Coordinator(
            drawn.topology, any_job.CLUSTER, script, checkpoint, asking=Asking(every=1)
        )
        first = coordinator.assign()
        reports = any_job.run_shuffled(first.work, first.ticket, batches[0], seed)
        coordinator.commit(first, reports, 1.0)
        before = checkpoint.last_commit()
        second = coordinator.assign()
        layout = second.work.layout

        def tamper(batches, stage):
            parcels = parcels_of(batches)
            places = [
                place
                for place, parcel in enumerate(parcels)
                if can_be(way, parcel, layout, stage, of_reports=of_reports)
            ]
            if tampered or not places or random.random() < 0.3 * (len(layout.stages) > 2):
                return batches
            place = places[int(random.integers(len(places)))]
            parcel = parcels[place]
            made = changed(parcel, way, layout, stage, random)
            if made != [parcel]:
                tampered.append(way)
                parcels[place : place + 1] = made
            return [as_batch(parcels)]

        try:
            reports = any_job.run_shuffled(
                second.work, second.ticket, batches[1], seed, tamper=tamper
            )
        except PenstockError as error:
            event(f"{way}: refused by a task with {type(error).__name__}")
        else:
            assume(tampered)
            event(f"{way}: refused by the driver")
            with pytest.raises(DeliveryError):
                coordinator.commit(second, reports, 1.0)
        assert before == checkpoint.last_commit()


def test_a_driver_that_is_asked_twice_before_the_first_batch_says_the_same(tmp_path):
    driver = any_job.Driver(tmp_path, Topology.source("s").then("a", key="k"))

    one, other = driver.coordinator.assign(), driver.coordinator.assign()

    assert one.work is other.work
    assert one == other
