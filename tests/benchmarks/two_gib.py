"""Text of more than 2 GiB in one instance: in the tuples of one batch, and in state.

Arrow counts the bytes of most columns of text in 32 bits, so all that puts texts together has to
see to it. The tests lower the limit to a few bytes; here it is passed as it is, in this process::

    python tests/benchmarks/two_gib.py

It prints what each trial took, and fails if a text is not found again as it was. It takes two to
seven minutes, 8 GiB of memory and 8 GiB in the temporary folder. ``--mib`` tries it with less.
"""

import argparse
import hashlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context

import pyarrow as pa

from optimizers import Cluster, Plan, Topology
from optimizers.folds import Last
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.results import results_of
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.parcels import REPORT, from_batches
from optimizers.runtime.task.reports import Reports
from optimizers.runtime.task.task import run_source, run_task
from optimizers.runtime.work import Settings
from optimizers.strategies.fixed import Fixed

MIB = 2_100  # of text, so more than 2 GiB
TEXT = 1 << 16  # bytes of one text, in the state and in the values
AT_ONCE = 256  # texts of one Arrow batch
FEW = 100  # keys where the state is to be small
PARTS = 6  # batches that fill the state

JOB = Topology.source("in").then("last", key="k", apply=Last("text"))


def text_of(number: int) -> str:
    """Return a text that no other number has."""
    return hashlib.sha256(b"%d" % number).hexdigest() * (TEXT // 64)


def tuples(first: int, last: int, keys: int) -> Iterator[pa.RecordBatch]:
    """Yield tuples with the texts of these numbers, batch by batch, for a number of keys."""
    for start in range(first, last, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, last))
        columns = {"k": [str(n % keys) for n in numbers], "text": [text_of(n) for n in numbers]}
        yield pa.RecordBatch.from_pydict(columns)


class Driver:
    """Runs the job in this process, and forgets what it does not have in files."""

    def __init__(self, folder: str) -> None:
        cache.forget()
        self.checkpoint = Checkpoint.create_or_open(Location(folder), JOB, seed=JOB.seed)
        self.coordinator = Coordinator(
            JOB,
            Cluster.uniform(1),
            Fixed(Plan()),
            self.checkpoint,
            settings=Settings(keep_output=False),
        )

    def batch(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Run a batch and commit it."""
        given = self.coordinator.assign()
        # There is one task of each stage, so the second reads what the first sends, as it comes.
        sent = run_source(given.work, given.ticket, "in", 0, rows)
        left = from_batches(run_task(given.work, given.ticket, 1, 0, sent))
        reports = [Reports.from_parcel(parcel) for parcel in left if parcel.edge == REPORT]
        self.coordinator.commit(given, reports, 1.0)

    def check(self, expected: dict[str, int]) -> None:
        """Compare the last text of each key with that of a number."""
        found = results_of(JOB, "last", self.checkpoint.read("last"))
        assert len(expected) == len(found)
        for piece in found.to_batches(max_chunksize=AT_ONCE):
            for key, text in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                assert text == text_of(expected[key]), f"key {key} has another text"


def in_one_batch(folder: str, texts: int) -> None:
    """Give an instance more text than fits in one batch; it keeps a little of it."""
    driver = Driver(folder)
    driver.batch(tuples(0, texts, FEW))
    driver.check({str(number % FEW): number for number in range(texts)})


def in_state(folder: str, texts: int) -> None:
    """Have an instance keep more than fits, a part with each batch; and a driver take over."""
    driver, part = Driver(folder), -(-texts // PARTS)
    for first in range(0, texts, part):
        driver.batch(tuples(first, min(first + part, texts), texts))
    driver = Driver(folder)
    driver.batch(tuples(texts, texts + FEW, texts))  # some keys again, with other texts
    cache.forget()
    driver.checkpoint.compact()
    driver.check({str(n): n if n >= FEW else n + texts for n in range(texts)})


def _measured(trial: Callable[[str, int], None], texts: int) -> None:
    """Run a trial and print what it took; in a process of its own, whose memory is its own."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trial(folder, texts)
    seconds = time.perf_counter() - started
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    size = texts * TEXT / (1 << 30)
    print(f"{trial.__name__}: {size:.2f} GiB of text, {seconds:.0f} s, {gib:.1f} GiB at most")


def main(arguments: list[str]) -> int:
    """Run both trials; return how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=MIB, help=f"of text (default: {MIB})")
    texts = parser.parse_args(arguments).mib * (1 << 20) // TEXT
    failed = 0
    for trial in (in_one_batch, in_state):
        process = get_context("spawn").Process(target=_measured, args=(trial, texts))
        # Memory that is no longer used goes back to the system, and is not counted.
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
        process.start()
        process.join()
        if process.exitcode:
            failed += 1
            print(f"{trial.__name__}: failed, with exit code {process.exitcode}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
