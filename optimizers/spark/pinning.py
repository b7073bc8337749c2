"""Pins: instances held on the machines that a plan names.

Spark runs a task where it likes. It does prefer where its input is, so a stage gets a second input:
an *anchor*, one row for each task, cached on the machine where the task should run. It is united
with what arrives partition by partition, and counts twice, so that it outvotes where the parcels
happen to lie. This needs executors on hosts of different names; on one machine there is nothing to
choose.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from optimizers.spark.hash_slots import slots
from optimizers.spark.tasks import ANCHOR


class Pins:
    """The anchors of the stages of one plan.

    Args:
        session: the session.
        hosts: for each host the ids of its executors.
    """

    def __init__(self, session: SparkSession, hosts: Mapping[str, Sequence[str]]) -> None:
        self._session = session
        self._hosts = hosts
        self._anchors: dict[tuple[str, ...], DataFrame] = {}

    def held(self, parcels: DataFrame, nodes: Sequence[str]) -> DataFrame:
        """Return what arrives at a stage, task by task where the nodes of its instances are.

        Args:
            parcels: the parcels, by task.
            nodes: the node of each task; one that is no host may be anywhere.
        """
        if not any(node in self._hosts for node in nodes):
            return parcels
        anchor = self._anchor(tuple(nodes))
        return anchor.union(anchor).union(parcels)

    def forget(self, used: Iterable[Sequence[str]]) -> None:
        """Give back what the anchors of other stages than these take."""
        wanted = {tuple(nodes) for nodes in used}
        for nodes in [nodes for nodes in self._anchors if nodes not in wanted]:
            self._anchors.pop(nodes).unpersist()

    def _anchor(self, nodes: tuple[str, ...]) -> DataFrame:
        if nodes not in self._anchors:
            self._anchors[nodes] = self._made(nodes)
        return self._anchors[nodes]

    def _made(self, nodes: tuple[str, ...]) -> DataFrame:
        """Cache a row for each task on the executors of its host."""
        numbers = slots(len(nodes)).tolist()
        wishes = [[(node, name) for name in self._hosts.get(node, ())] for node in nodes]
        frame = rows_at(self._session, dict(zip(numbers, wishes, strict=True))).select(
            functions.col("task"),
            functions.struct(
                functions.lit(ANCHOR).alias("edge"),
                *(functions.lit(0).alias(name) for name in ("target", "sender", "number")),
                functions.lit(0).cast("bigint").alias("rows"),
                functions.lit("").alias("place"),
                functions.lit(None).cast("binary").alias("body"),
            ).alias("parcel"),
        )
        anchor = frame.repartition(len(nodes), "task").persist()
        anchor.count()
        return anchor


def rows_at(session: SparkSession, wishes: Mapping[int, Sequence[tuple[str, str]]]) -> DataFrame:
    """Return a row for each number, in a partition of its own, which wants to be where it is said.

    Args:
        session: the session.
        wishes: by number, the executors that it may be on, each by its host and its id.
    """
    context: Any = session.sparkContext
    jvm, gateway = context._jvm, context._gateway  # noqa: SLF001  # PySpark has no other way
    rows = []
    for number, executors in wishes.items():
        values = gateway.new_array(jvm.java.lang.Object, 1)
        values[0] = number
        places = [f"executor_{host}_{name}" for host, name in executors]
        row = jvm.org.apache.spark.sql.RowFactory.create(values)
        rows.append(jvm.scala.Tuple2(row, jvm.PythonUtils.toSeq(places)))
    kind = jvm.java.lang.Class.forName("org.apache.spark.sql.Row")
    tag = jvm.scala.reflect.ClassTag.apply(kind)
    spread = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(rows), tag)  # noqa: SLF001
    java_session: Any = session._jsparkSession  # noqa: SLF001
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL("task int")
    return DataFrame(java_session.createDataFrame(spread.toJavaRDD(), schema), session)
