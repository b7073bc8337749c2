"""Pins: instances held on the machines that a plan names.

Spark runs a task where it likes. It does prefer where its input is, so a stage gets a second input:
an *anchor*, one row for each task, cached on the machine where the task should run. It is united
with what arrives partition by partition, and counts twice, so that it outvotes where the parcels
happen to lie. This needs executors on hosts of different names; on one machine there is nothing to
choose.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from optimizers.spark.slots import slots
from optimizers.spark.tasks import ANCHOR, COLUMNS


def executor_hosts(session: SparkSession) -> dict[str, tuple[str, ...]]:
    """Return for each host its executors, without the driver's own host if it runs no tasks."""
    java: Any = session.sparkContext._jsc  # noqa: SLF001  # PySpark has no other way
    known: dict[str, list[str]] = {}
    store = java.sc().statusStore().executorList(True)  # noqa: FBT003
    for number in range(store.size()):
        executor = store.apply(number)
        if executor.id() != "driver":
            known.setdefault(executor.hostPort().split(":")[0], []).append(executor.id())
    return {host: tuple(sorted(names)) for host, names in sorted(known.items())}


class Pins:
    """The anchors of the stages of one plan.

    Args:
        session: the session.
        hosts: for each host its executors, see `executor_hosts`.
    """

    def __init__(self, session: SparkSession, hosts: dict[str, tuple[str, ...]]) -> None:
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
        context: Any = self._session.sparkContext
        jvm, scala = context._jvm, context._jsc.sc()  # noqa: SLF001
        rows = []
        for task, node in enumerate(nodes):
            values = context._gateway.new_array(jvm.java.lang.Object, 7)  # noqa: SLF001
            slot = int(slots(len(nodes))[task])
            for place, value in enumerate((slot, ANCHOR, 0, 0, 0)):
                values[place] = jvm.java.lang.Integer(value)
            values[5] = jvm.java.lang.Long(0)
            values[6] = bytearray()
            row = jvm.org.apache.spark.sql.RowFactory.create(values)
            wishes = [f"executor_{node}_{name}" for name in self._hosts.get(node, ())]
            rows.append(jvm.scala.Tuple2(row, jvm.PythonUtils.toSeq(wishes)))
        tag = jvm.scala.reflect.ClassTag.apply(
            jvm.java.lang.Class.forName("org.apache.spark.sql.Row")
        )
        spread = scala.makeRDD(jvm.PythonUtils.toSeq(rows), tag)
        java_session: Any = self._session._jsparkSession  # noqa: SLF001
        schema = _java_schema(self._session)
        frame = DataFrame(java_session.createDataFrame(spread.toJavaRDD(), schema), self._session)
        anchor = frame.repartition(len(nodes), "task").persist()
        anchor.count()
        return anchor


def _java_schema(session: SparkSession) -> Any:
    java: Any = session._jvm  # noqa: SLF001
    return java.org.apache.spark.sql.types.StructType.fromDDL(COLUMNS)
