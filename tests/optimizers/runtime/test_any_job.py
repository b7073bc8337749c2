"""Any job, on any stream, under any plans: the results are those of one pair of hands."""

import tempfile

import any_job
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import rows_of

from optimizers.control.settings import Asking
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings

SENDING = st.sampled_from(
    [{}, {"shared_batches": True}, {"shared_batches": True, "parcel": 2}, {"parcel_bytes": 40}]
)


def check_batch(drawn, checkpoint, reports, expected):
    """Compare what a batch has done with what it had to do."""
    received, emitted = expected
    tuples, sent = dict.fromkeys(received, 0), dict.fromkeys(emitted, 0)
    for report in rows_of(reports):
        tuples[report.operator] += report.tuples
        sent[report.operator] += report.emitted
    assert {name: len(rows) for name, rows in received.items()} == tuples
    assert {name: len(rows) for name, rows in emitted.items()} == sent
    left = {name: any_job.counted(emitted[name]) for name in drawn.topology.sinks if emitted[name]}
    assert left == any_job.outputs_of(checkpoint)


@settings(max_examples=50)
@given(st.data())
def test_any_job_on_any_stream_under_any_plans_gives_what_one_pair_of_hands_gives(data):
    drawn = data.draw(any_job.jobs())
    batches = data.draw(any_job.streams(drawn, data.draw(st.integers(1, 5))))
    script = data.draw(any_job.scripts(drawn, len(batches)))
    optimizer = any_job.Scripted(script, data.draw(any_job.PROBES))
    reference = any_job.Reference(drawn)
    meanwhile = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint.create_or_open(Location(folder), drawn.topology)
        coordinator = Coordinator(
            drawn.topology,
            any_job.CLUSTER,
            optimizer,
            checkpoint,
            asking=Asking(every=1, meanwhile=meanwhile),
            settings=Settings(looked_at=20, **data.draw(SENDING)),
        )
        for batch in batches:
            assignment = coordinator.assign()
            work, ticket = assignment.work, assignment.ticket
            seed = data.draw(st.integers(0, 1 << 20))
            if seed % 4:
                reports = any_job.run_shuffled(work, ticket, batch, seed)
            else:
                reports = run_batch(work, ticket, batch)
            coordinator.commit(assignment, reports, 1.0)

            expected = reference.run({s: any_job.rows_in(parts) for s, parts in batch.items()})
            check_batch(drawn, checkpoint, reports, expected)

        asked = sum(not decision.of_machines for decision in coordinator.decisions)
        assert meanwhile or len(batches) + 1 == asked
        assert not any(decision.refused for decision in coordinator.decisions)
        for name, state in reference.state.items():
            assert state == any_job.results(drawn, checkpoint, name)
