"""Reading the state in a checkpoint, also beside a job that goes on."""

import pyarrow as pa
import pytest
from word_counts import rows, state_of, write

from optimizers import Topology
from optimizers.errors import CheckpointError, StateError, UnknownNameError
from optimizers.runtime.log import inspection
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.commit_log import Log
from optimizers.runtime.log.records import Commit
from optimizers.runtime.state.file import Attempt, FileKind, write_state
from optimizers.runtime.storage.location import Location


class TestReadersBesideAJob:
    """The job commits and cleans up between any two things that a reader does."""

    @pytest.fixture
    def busy(self, filled, here, monkeypatch):
        """A checkpoint whose job goes on each time that a file of state is read."""

        def goes_on(times):
            read = inspection.read_states
            left = iter(range(times))

            def after_a_batch(location, files):
                if next(left, None) is not None:
                    batch = filled.last_commit().batch + 1
                    state = {"count": ((write(here, batch, {1: 10 + batch}),),)}
                    filled.commit(Commit(batch, 0, state))
                    filled.clean(keep=1)
                return read(location, files)

            monkeypatch.setattr(inspection, "read_states", after_a_batch)

        return goes_on

    def test_read_the_newest_state_once_what_they_looked_for_is_gone(self, filled, busy):
        busy(1)
        assert {"w1": 11} == state_of(filled)
        busy(3)
        assert {"w1": 14} == state_of(filled)

    def test_are_told_what_to_do_if_they_never_get_there(self, filled, busy):
        busy(99)
        with pytest.raises(CheckpointError, match=r"cleaned up 5 times .* SparkEngine\(keep=...\)"):
            filled.read("count")

    def test_are_told_if_the_batch_they_name_is_gone(self, filled, busy):
        busy(1)
        with pytest.raises(CheckpointError, match="is missing"):
            state_of(filled, 0)
        with pytest.raises(CheckpointError, match="keeps no commit of batch 0; kept: 1"):
            state_of(filled, 0)

    def test_can_open_it(self, filled, here, monkeypatch):
        commit = Log.commit

        def gone_on(self, batch, revision):
            monkeypatch.setattr(Log, "commit", commit)
            filled.commit(Commit(1, 0, {"count": ((write(here, 1, {1: 11}),),)}))
            filled.clean(keep=1)
            return commit(self, batch, revision)

        monkeypatch.setattr(Log, "commit", gone_on)
        assert {"w1": 11} == state_of(Checkpoint.open(here))

    def test_are_told_of_files_that_are_missing_though_nothing_was_cleaned_up(self, filled, here):
        here.delete("state/count/0000000000-0-a.arrow")
        with pytest.raises(CheckpointError, match="is missing"):
            filled.read("count")


def test_a_checkpoint_is_described(filled, here):
    base = filled.last_commit().state["count"][0]
    chain = (*base, write(here, 1, {2: 20, 1: 11}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain, ())}))

    found = filled.describe()

    assert (0, 1) == found.batches
    assert filled.last_commit() == found.commit
    assert [("count", 0, 3, 2), ("count", 1, 0, 0)] == [
        (each.operator, each.instance, each.rows, each.files) for each in found.instances
    ]
    assert sum(file.bytes for file in chain) == found.instances[0].bytes


def test_state_of_two_key_columns_is_read_by_their_names(here):
    job = Topology.source("s").then("pairs", key=("a", "count"))
    checkpoint = Checkpoint.create_or_open(here, job)
    table = pa.table(
        {
            "place": pa.array([4, 9], pa.uint64()),
            "key_0": ["x", "y"],
            "key_1": [1, 2],
            "value_count": [10, 20],
            "value_sum": [0.5, 1.5],
        }
    )
    halves = [
        (write_state(here, Attempt("pairs", 0, 0, "a"), table.slice(1), kind=FileKind.BASE),),
        (write_state(here, Attempt("pairs", 1, 0, "a"), table.slice(0, 1), kind=FileKind.BASE),),
    ]
    checkpoint.commit(Commit(0, state={"pairs": halves}))

    assert {
        "a": ["x", "y"],
        "count": [1, 2],
        "value_count": [10, 20],
        "sum": [0.5, 1.5],
    } == checkpoint.read("pairs").to_pydict()


def test_a_key_that_two_instances_hold_is_an_error_unless_they_may(tmp_path):
    for partial in (True, False):
        here = Location(tmp_path / str(partial))
        job = Topology.source("s").then("count", key="word", partial=partial)
        checkpoint = Checkpoint.create_or_open(here, job)
        halves = [(write(here, 0, {1: 10, 5: 1}, instance=each),) for each in range(2)]
        checkpoint.commit(Commit(0, state={"count": halves}))
        if partial:
            assert ["w1", "w1", "w5", "w5"] == checkpoint.read("count")["word"].to_pylist()
        else:
            with pytest.raises(StateError, match=r"two instances .* state of key \['w1'\] at pl"):
                checkpoint.read("count")


def test_state_that_cannot_be_read_as_one_table_is_an_error(checkpoint, here):
    other = rows({2: 1}).set_column(2, "value_count", pa.array(["x"]))
    strange = (write_state(here, Attempt("count", 1, 0, "a"), other, kind=FileKind.BASE),)
    checkpoint.commit(Commit(0, state={"count": ((write(here, 0, {1: 1}),), strange)}))

    with pytest.raises(StateError, match="keep state of different columns"):
        checkpoint.read("count")


def test_state_of_other_key_columns_than_the_job_has_is_an_error(checkpoint, here):
    more = rows({2: 1}).append_column("key_1", pa.array(["x"]))
    file = write_state(here, Attempt("count", 0, 0, "a"), more, kind=FileKind.BASE)
    checkpoint.commit(Commit(0, state={"count": ((file,),)}))

    with pytest.raises(StateError, match=r"key columns \['key_0', 'key_1'\], where .* is word"):
        checkpoint.read("count")


def test_only_operators_with_a_key_have_state(filled):
    with pytest.raises(UnknownNameError, match="operator with a key 'words'; known: 'count'"):
        filled.read("words")
    filled.commit(Commit(1, 0))
    assert {"word": []} == filled.read("count").to_pydict()
