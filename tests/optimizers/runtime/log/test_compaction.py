"""State written as single files: nothing changes but the files."""

import pytest
from word_counts import files_of, output_at, state_of, write

from optimizers.errors import CheckpointError
from optimizers.runtime.log import tidying
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.records import Commit
from optimizers.runtime.storage.location import Location


def test_compaction_changes_nothing_but_the_files(filled, here):
    base = filled.last_commit().state["count"][0]
    chain = (*base, write(here, 1, {2: 20}, gone=set()), write(here, 1, {1: 0}, name="c", gone={1}))
    single = (write(here, 1, {3: 30}, instance=1),)
    filled.commit(Commit(1, 0, {"count": (chain, single, ())}, (output_at("output/x"),), 9))
    before = state_of(filled)

    compacted = filled.compact()

    assert {"w2": 20, "w3": 30} == before == state_of(filled)
    assert compacted == filled.last_commit() == Checkpoint.open(here).last_commit()
    assert compacted == filled.commit_of(1)
    assert (1, 1, 0, (output_at("output/x"),), 9) == (
        compacted.batch,
        compacted.revision,
        compacted.plan,
        compacted.outputs,
        compacted.tuples,
    )
    assert [1, 1, 0] == [len(files) for files in compacted.state["count"]]
    assert single == compacted.state["count"][1]
    assert compacted == filled.compact()
    assert (0, 1) == filled.batches()
    filled.clean(keep=1)  # a driver may be about to go on from the old files
    assert ["commits/0000000001-1.json", "commits/0000000001.json"] == list(here.list("commits"))
    assert {file.path for file in (*chain, *single)} < set(here.list("state"))
    filled.clean(keep=1, alone=True)
    assert before == state_of(filled)
    assert ["commits/0000000001-1.json"] == list(here.list("commits"))
    assert {file.path for _, _, files in compacted.instances() for file in files} == set(
        here.list("state")
    )
    filled.commit(Commit(2, 0, compacted.state))
    assert before == state_of(filled)


def test_files_that_were_written_anew_stay_until_a_later_batch_is_committed(filled, here):
    chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain,)}))
    held = filled.last_commit()
    filled.compact()
    for _ in range(2):
        filled.clean(keep=1)
        assert held.files <= set(files_of(here))
    filled.commit(Commit(2, 0, filled.last_commit().state))

    filled.clean(keep=2)

    assert {"w1": 10, "w2": 20} == state_of(filled) == state_of(filled, 1)
    assert not held.files & set(files_of(here))


def test_state_that_is_being_written_anew_is_not_taken_for_garbage(filled, here, monkeypatch):
    chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain,)}))
    write_new = Location.write_new

    def cleaned_before(self, name, content):
        if name.startswith("commits/"):
            filled.clean(keep=1)
        write_new(self, name, content)

    monkeypatch.setattr(Location, "write_new", cleaned_before)
    filled.compact()

    assert {"w1": 10, "w2": 20} == state_of(Checkpoint.open(here))


def test_state_is_not_written_anew_for_a_batch_that_is_not_the_last_by_then(
    filled, here, monkeypatch
):
    chain = (*filled.last_commit().state["count"][0], write(here, 1, {2: 20}, gone=set()))
    filled.commit(Commit(1, 0, {"count": (chain,)}))
    read = tidying.read_states

    def committed_meanwhile(location, files):
        filled.commit(Commit(2, 0, {"count": (chain,)}))
        return read(location, files)

    monkeypatch.setattr(tidying, "read_states", committed_meanwhile)
    with pytest.raises(
        CheckpointError, match=r"batch 2 was committed .* while the state of batch 1"
    ):
        filled.compact()

    assert (2, 0) == filled.last_commit().number
