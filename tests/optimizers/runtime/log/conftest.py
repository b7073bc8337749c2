"""A checkpoint of counts of words: its folder, new, and with one batch."""

import pytest
from word_counts import JOB, PLAN, write

from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.records import Commit
from optimizers.runtime.storage.location import Location


@pytest.fixture
def here(tmp_path):
    return Location(tmp_path / "checkpoint")


@pytest.fixture
def checkpoint(here):
    return Checkpoint.create_or_open(here, JOB)


@pytest.fixture
def filled(checkpoint, here):
    checkpoint.save_plan(0, PLAN)
    checkpoint.commit(Commit(0, plan=0, state={"count": ((write(here, 0, {1: 10}),),)}))
    return checkpoint
