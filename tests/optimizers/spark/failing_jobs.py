"""Jobs that fail, run as a user runs them: from a script. What is on stderr is counted by tests.

    python tests/optimizers/spark/failing_jobs.py SESSION CASE...

Each case is run and its error printed as Python would print it; the last one is let out.
"""

import sys
import tempfile
import traceback

import pyarrow as pa
from pyspark.sql import SparkSession

from optimizers import Topology
from optimizers.folds import Count, EachKey, each_row
from optimizers.runtime.task import outbox
from optimizers.spark import SparkEngine, ToParquet, local_session, repartition
from optimizers.spark.session import QUICK_START


class OwnError(Exception):
    """Of the user's own."""


def invert(row):
    return {"k": row["k"], "v": 1 / row["v"]}


def named(row):
    return {"k": row["k"]}


def sabotage(row):
    """Break what is ours, in this worker; the cases after it must not come to that."""
    outbox.key_batch = None
    return row


def broken_sink(_rows, _batch):
    raise OwnError("the sink\nis broken")


def broken_fold(_key, _rows, _state):
    raise OwnError("no state")


COUNT = Topology.source("in").then("n", key="k", apply=Count())
INVERT = Topology.source("in").then("inv", apply=each_row(invert)).then("n", key="k")
NAMED = Topology.source("in").then("clean", apply=each_row(named)).then("n", key="k")
BROKEN = Topology.source("in").then("fine", apply=each_row(sabotage)).then("n", key="k")
FOLD = Topology.source("in").then("n", key="k", apply=EachKey(broken_fold, state=pa.int64()))


def main(kind, cases):
    if kind == "ours":
        session = local_session(2, quick_start=True)
    else:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        # What else Spark says of jobs that are fine: a bar of progress, and a warning.
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.driver.extraJavaOptions", QUICK_START)
        session = builder.config("spark.sql.adaptive.enabled", "false").getOrCreate()
    rows = session.createDataFrame([("a", 1), (None, 2), ("b", 3)], "k string, v int")
    good = session.createDataFrame([("a", 1), ("c", 2), ("b", 0)], "k string, v int")
    folder = tempfile.mkdtemp()
    far = session.sql("select 'a' as k, timestamp_seconds(1700000000000) as t")  # milliseconds
    for name, frame in (("rows", rows), ("good", good), ("far", far)):
        frame.coalesce(1).write.parquet(f"{folder}/{name}")

    def stream(name):
        schema = "k string, t timestamp" if name == "far" else "k string, v int"
        return session.readStream.schema(schema).parquet(f"{folder}/{name}")

    def engine():
        return SparkEngine(checkpoint=tempfile.mkdtemp(), spark=session)

    def wait(job, name, **options):
        engine().start(job, stream(name), trigger={"availableNow": True}, **options).wait()

    known = {
        "none": lambda: engine().run(COUNT, good),
        "key": lambda: engine().run(COUNT, rows),
        "function": lambda: engine().run(INVERT, good),
        "fold": lambda: engine().run(FOLD, good),
        "far": lambda: engine().run(NAMED, far),
        "unforeseen": lambda: engine().run(BROKEN, good),
        "stream-far": lambda: wait(NAMED, "far"),
        "stream": lambda: wait(COUNT, "rows"),
        "stream-none": lambda: wait(COUNT, "good"),
        "stream-function": lambda: wait(INVERT, "good"),
        "stream-sink": lambda: wait(COUNT, "good", each_batch=broken_sink),
        "sink": lambda: engine().run(COUNT, good, each_batch=broken_sink),
        "parquet": lambda: engine().run(COUNT, good, each_batch=ToParquet("/proc/nowhere")),
        "door": lambda: repartition(rows, 4, key="k").collect(),
    }
    for number, case in enumerate(cases):
        sys.stderr.write(f"=== {case}\n")
        sys.stderr.flush()
        if number == len(cases) - 1:
            known[case]()
        else:
            try:
                known[case]()
            except Exception:  # noqa: BLE001  # as Python prints what is let out
                traceback.print_exc()
        sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
