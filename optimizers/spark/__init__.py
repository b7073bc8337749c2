"""The engine on Apache Spark: the only place that talks to it."""

from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings
from optimizers.spark.balance import balance
from optimizers.spark.costs import learn_costs
from optimizers.spark.engine import Run, SparkEngine, StreamingRun
from optimizers.spark.executors import SparkExecutors
from optimizers.spark.repartition import learn_tables, repartition
from optimizers.spark.session import local_session
from optimizers.spark.sinks import ToParquet
from optimizers.spark.sized import Sized

__all__ = [
    "Location",
    "Run",
    "Settings",
    "Sized",
    "SparkEngine",
    "SparkExecutors",
    "StreamingRun",
    "ToParquet",
    "balance",
    "learn_costs",
    "learn_tables",
    "local_session",
    "repartition",
]
