"""A checkpoint on S3: fenced, found again under odd names, and gone on with after a kill.

The server is moto's, on this machine. The proxy before it loses answers, and lets one request in
that writes at a time, as S3 does and moto does not quite.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool

import pyarrow as pa
import pytest
from any_job import Driver
from object_stores import ODD, odd_names_are_kept

from optimizers import Topology
from optimizers.cli import main
from optimizers.errors import CheckpointError
from optimizers.folds import Count
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage import fence
from optimizers.runtime.storage.location import Location
from optimizers.runtime.storage.s3 import S3Fence

JOB = Topology.source("words", parallelism=2).then(
    "count", key="word", parallelism=3, apply=Count()
)


@pytest.fixture
def here(s3, bucket):
    return Location(s3.uri(bucket))


@pytest.fixture
def through(s3, bucket, proxy, monkeypatch):
    """The same folder, through the proxy."""
    monkeypatch.setattr(fence, "_PAUSES", (0.0,) * 6)
    return Location(s3.uri(bucket, port=proxy.here))


def test_what_is_written_is_read_back(here):
    here.write_new("state/count/a.arrow", b"first")
    here.write_once("state/count/b.arrow", b"second")
    here.write_atomically("admitted/x", pa.py_buffer(b""))
    here.write_atomically("admitted/x", b"third")

    assert b"first" == here.read_bytes("state/count/a.arrow")
    assert b"second" == here.read("state/count/b.arrow", mapped=True).to_pybytes()
    assert b"third" == here.read_bytes("admitted/x")
    assert {"state/count/a.arrow": 5, "state/count/b.arrow": 6} == here.list("state")
    assert {} == here.list("stat")
    assert ("admitted", "state") == here.entries()
    with pytest.raises(CheckpointError, match=r"cannot read .*/nowhere: it is missing"):
        here.read_bytes("nowhere")


def test_every_spelling_is_the_same_folder(s3, bucket, here):
    here.write_new("a", b"x")

    for scheme in ("s3a", "s3n"):
        assert b"x" == Location(s3.uri(bucket, scheme=scheme)).read_bytes("a")


@pytest.mark.parametrize("root", ["job", "odd%20job+100%25%20=%C3%BC%3F"])
def test_odd_names_are_written_found_listed_and_deleted(s3, bucket, root):
    here = Location(s3.uri(bucket, root))
    odd_names_are_kept(here, [*ODD, "a\\b", "-"])
    assert all(key.endswith("/") for key in s3.keys(bucket))


def test_a_folder_of_more_files_than_one_answer_lists(s3, bucket, here):
    names = [f"state/count/{number:05}" for number in range(1234)]
    with ThreadPool(8) as pool:
        pool.map(lambda name: s3.client.put_object(Bucket=bucket, Key=f"job/{name}"), names)

    assert dict.fromkeys(names, 0) == here.list("state")


def test_a_file_of_its_own_name_is_sent_once_and_never_copied(through, proxy):
    through.write_once("state/count/a.arrow", bytes(100_000))

    at_once = int(pa.__version__.partition(".")[0]) >= 21
    assert (Counter(PUT=1) if at_once else Counter(POST=2, PUT=1)) == proxy.asked


def test_of_many_that_write_a_new_file_at_once_one_does(through):
    def try_it(name):
        try:
            through.write_new("commits/1.json", name)
        except CheckpointError:
            return None
        return name

    with ThreadPool(4) as pool:
        for _ in range(5):
            done = pool.map(try_it, [b"%d" % number for number in range(4)])
            assert [through.read_bytes("commits/1.json")] == [name for name in done if name]
            through.delete("commits/1.json")


def test_of_two_drivers_that_commit_a_batch_at_once_one_does(through, monkeypatch):
    drivers = {name: Driver(through.root, JOB) for name in ("from A", "from B")}
    reports = {name: driver.run(words([name])) for name, driver in drivers.items()}
    gate = threading.Barrier(2, timeout=30)
    put = S3Fence.put

    def together(self, path, content, token):
        if "/commits/" in path:
            gate.wait()  # both have looked by now, and found no commit
        put(self, path, content, token)

    monkeypatch.setattr(S3Fence, "put", together)

    def commit(name):
        driver = drivers[name]
        try:
            driver.coordinator.commit(driver.assigned, reports[name], 1.0)
        except CheckpointError as error:
            return str(error)
        return name

    with ThreadPool(2) as pool:
        said = pool.map(commit, drivers)

    (winner,) = set(said) & set(drivers)
    (loser,) = set(said) - set(drivers)
    assert "commits/0000000000.json is already there" in loser
    assert {winner: 1} == Driver(through.root, JOB).results("count")


@pytest.mark.parametrize("faults", [["unanswered"], ["failed"], ["unsent", "failed", "unanswered"]])
@pytest.mark.parametrize("asking", [[], ["unsent", "failed"]])
def test_a_create_whose_answer_is_lost_is_found_to_be_ours(through, proxy, faults, asking):
    left = {"PUT": list(faults), "HEAD": []}

    def fault(method, path):
        if "/commits/" not in path or not left.get(method):
            return None
        if method == "PUT":
            left["HEAD"] = list(asking)
        return left[method].pop(0)

    proxy.fault = fault

    through.write_new("commits/1.json", b"mine")

    assert not left["PUT"]
    assert b"mine" == through.read_bytes("commits/1.json")
    with pytest.raises(CheckpointError, match="already there"):
        through.write_new("commits/1.json", b"mine")


def test_a_create_that_another_one_overtakes_while_its_answer_is_lost_is_refused(through, proxy):
    # The first try never arrives, and before the second the other driver writes the very same.
    def fault(method, path):
        if method != "PUT" or "/commits/" not in path:
            return None
        proxy.fault = lambda method, path: None
        through.write_new("commits/1.json", b"the same")
        return "unsent"

    proxy.fault = fault

    with pytest.raises(CheckpointError, match="already there"):
        through.write_new("commits/1.json", b"the same")


def test_a_store_that_never_answers_is_told_of(through, proxy):
    proxy.fault = lambda method, path: "unsent" if method == "PUT" else None

    with pytest.raises(
        CheckpointError, match=r"cannot write .*commits/1\.json: the store did not say whether"
    ):
        through.write_new("commits/1.json", b"mine")
    assert 7 == proxy.asked["PUT"]


def test_what_is_forbidden_is_not_asked_for_again(through, proxy):
    pass_on = proxy.pass_on

    def forbid(method, path, body, headers):
        return (403, [], b"") if method == "PUT" else pass_on(method, path, body, headers)

    proxy.pass_on = forbid

    with pytest.raises(CheckpointError, match="permission denied"):
        through.write_new("commits/1.json", b"mine")
    assert 1 == proxy.asked["PUT"]


def test_a_create_that_meets_another_one_under_way_is_asked_for_again(through, proxy):
    pass_on, busy = proxy.pass_on, [409, 503]

    def late(*asked):
        return (busy.pop(), [], b"") if busy else pass_on(*asked)

    proxy.pass_on = late

    through.write_new("commits/1.json", b"mine")

    assert not busy
    assert b"mine" == through.read_bytes("commits/1.json")


def test_a_bucket_that_is_not_there_is_told_of(s3):
    with pytest.raises(CheckpointError, match="cannot write no-such-bucket/job/a"):
        Location(s3.uri("no-such-bucket")).write_new("a", b"")


def test_a_store_that_passes_over_conditions_is_found_out_at_the_start(through, proxy):
    pass_on = proxy.pass_on

    def careless(method, path, body, headers):
        kept = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        return pass_on(method, path, body, kept)

    through.check_fence()
    proxy.pass_on = careless

    with pytest.raises(CheckpointError, match=r"puts a second file in place .* one_driver=True"):
        through.check_fence()
    Location(through.root, one_driver=True).check_fence()
    assert {} == through.list("")


def test_without_its_client_nothing_is_committed(here, monkeypatch):
    from optimizers.runtime.storage.opening import disk_of  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "boto3", None)
    disk_of.cache_clear()

    with pytest.raises(CheckpointError, match=r"boto3 is not installed .*penstock\[s3\]"):
        Driver(here.root, JOB)
    here.write_once("state/a", b"what executors do needs none")
    assert {"state/a": 28} == here.list("")


@contextmanager
def process(root, *, steps):
    code = (
        "import sys\n"
        "sys.path[:0] = ['tests/helpers', '.']\n"
        "from any_job import Driver\n"
        "import importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('here', {__file__!r})\n"
        "here = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(here)\n"
        f"here.work({root!r}, {steps})\n"
    )
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def words(some):
    return {"words": pa.table({"word": list(some)})}


def text_of(batch):
    return [f"w{(batch * 7 + number * number) % 23}" for number in range(40)]


def work(root, steps):
    """Go on with the job, and say each batch that is done."""
    driver = Driver(root, JOB)
    while driver.coordinator.next_batch < steps:
        driver.batch(words(text_of(driver.coordinator.next_batch)))
        print(driver.coordinator.next_batch - 1, flush=True)  # noqa: T201


def test_a_job_whose_process_is_killed_goes_on_is_compacted_and_read(s3, bucket, proxy, capsys):
    steps, kills = 8, Counter()
    root = s3.uri(bucket, port=proxy.here)
    for kind, after in {"commits": 2, "state": 5, "GET": 20}.items():
        with process(root, steps=steps) as child:
            left = [after]

            # Killed with a request under way, which the store does nevertheless.
            def fault(method, path, kind=kind, child=child, left=left):
                if (method == "PUT" and f"/{kind}/" in path) or method == kind:
                    left[0] -= 1
                    if left[0] == 0:
                        child.send_signal(signal.SIGKILL)
                        kills[kind] += 1

            proxy.fault = fault
            child.wait(timeout=120)
            proxy.fault = lambda method, path: None
    assert {"commits": 1, "state": 1, "GET": 1} == kills
    with process(root, steps=steps) as child:
        assert 0 == child.wait(timeout=120)

    expected = Counter(word for batch in range(steps) for word in text_of(batch))
    driver = Driver(root, JOB)
    assert steps == driver.coordinator.next_batch
    assert expected == driver.results("count")

    assert 0 == main(["state", root, "--compact"])
    told = capsys.readouterr().out.splitlines()
    assert "compacted" in told[0]
    assert not [line for line in told if "hush-hush" in line]
    assert expected == Driver(root, JOB).results("count")
    assert all(
        len(files) == 1 for _, _, files in Checkpoint.open(Location(root)).last_commit().instances()
    )
    assert len(expected) == sum(int(line.split()[3]) for line in told if line.startswith("count"))
