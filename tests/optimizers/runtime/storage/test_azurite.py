"""A checkpoint on Azure's store, against Azurite, Microsoft's emulator of it.

It comes by ``npm install azurite``; where no ``azurite-blob`` is on the path, the tests are left
out.
"""

import shutil
import socket
import subprocess
import time

import pyarrow as pa
import pytest
from any_job import Driver
from azure.core.exceptions import ServiceRequestError
from azure.storage.blob import BlobServiceClient
from object_stores import AZURE_KEY, odd_names_are_kept, on_azure

from optimizers import Topology
from optimizers.errors import CheckpointError
from optimizers.folds import Count
from optimizers.runtime.storage.location import Location

pytestmark = pytest.mark.skipif(
    not shutil.which("azurite-blob"), reason="azurite-blob is not on the path"
)


@pytest.fixture(scope="module")
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck"]
    server = subprocess.Popen(
        [
            str(shutil.which("azurite-blob")),
            *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--disableTelemetry"),
            *options,
        ],
        stdout=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/devstoreaccount1"
    client = BlobServiceClient(url, credential=AZURE_KEY, retry_total=0)
    try:
        for left in reversed(range(100)):
            try:
                client.create_container("jobs")
                break
            except ServiceRequestError:
                if not left:
                    raise
            time.sleep(0.1)
        yield port
    finally:
        client.close()
        server.terminate()
        server.wait()


def test_odd_names_are_written_found_listed_and_deleted(port):
    here = Location(on_azure(port))
    odd_names_are_kept(here)


def test_a_job_goes_on_where_it_was(port):
    job = Topology.source("words").then("count", key="word", parallelism=2, apply=Count())
    root = on_azure(port, "another")
    Location(root).check_fence()
    for _ in range(3):
        Driver(root, job).batch({"words": pa.table({"word": ["a", "b", "a"]})})

    assert {"a": 6, "b": 3} == Driver(root, job).results("count")
    first, second = Driver(root, job), Driver(root, job)
    reports = [d.run({"words": pa.table({"word": ["a"]})}) for d in (first, second)]
    first.coordinator.commit(first.assigned, reports[0], 1.0)
    with pytest.raises(CheckpointError):
        second.coordinator.commit(second.assigned, reports[1], 1.0)
