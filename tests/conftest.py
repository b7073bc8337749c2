"""Hypothesis profiles: ``dev`` on a desk, ``ci`` where a run must be repeatable; and one seed."""

import os

import pytest
from hypothesis import HealthCheck, settings

from optimizers.runtime import mark

SEED = 7

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session", autouse=True)
def one_seed():
    """Give all checkpoints one seed, where each would draw its own: equal runs are to be equal."""

    def drawn():
        return SEED

    drawn.really = mark.drawn_seed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mark, "drawn_seed", drawn)
        yield
