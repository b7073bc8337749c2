"""The seeds that checkpoints draw are such as jobs can be hashed by."""

import pytest

from optimizers import Topology
from optimizers.errors import InvalidValueError
from optimizers.runtime.log.job_identity import Identity
from optimizers.runtime.log.mark import Mark, drawn_seed

JOB = Topology.source("in").then("n", key="k")


@pytest.mark.parametrize("place", [0, -1])
def test_a_job_takes_every_seed_that_is_drawn(monkeypatch, place):
    monkeypatch.setattr("secrets.randbelow", lambda limit: range(limit)[place])
    drawn = drawn_seed()

    assert JOB.seeded(drawn).seed == drawn > 0


def test_a_seed_that_no_job_takes_is_refused_before_it_is_written_down():
    with pytest.raises(InvalidValueError, match="seed=9223372036854775808 is out of range"):
        Mark.drawn(Identity.of(JOB), 1 << 63)
