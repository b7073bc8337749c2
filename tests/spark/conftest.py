"""One Spark session for all tests that need one."""

import pytest

from optimizers.spark.session import local_session


@pytest.fixture(scope="session")
def spark():
    session = local_session(2, quick_start=True)
    yield session
    session.stop()
