"""One Spark session for all tests that need one."""

import pytest

from optimizers.spark.session import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    # What it spills and shuffles is in a folder of its own, so that a test can lose it.
    local = str(tmp_path_factory.mktemp("spark"))
    session = local_session(2, quick_start=True, settings={"spark.local.dir": local})
    yield session
    session.stop()
