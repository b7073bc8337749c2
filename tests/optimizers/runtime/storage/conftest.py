"""A server of S3 for all tests of storage, whatever the environment says of the real one."""

import os

import pytest
from object_stores import Proxy, s3_server


@pytest.fixture(autouse=True)
def only_here(monkeypatch):
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def s3():
    with s3_server() as store:
        yield store


@pytest.fixture
def bucket(s3):
    return s3.bucket()


@pytest.fixture
def proxy(s3):
    with Proxy.before(s3.port) as proxy:
        yield proxy
