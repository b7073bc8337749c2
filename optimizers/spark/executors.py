"""Executors: which hosts they run on, and more or fewer of them where a plan wants that."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from optimizers.errors import PlanError

_LOG = logging.getLogger(__name__)

_NO_RACK = "/default-rack"  # as Hadoop calls it where it was not told
_UNNAMED = re.compile(r"[^\w.:@-]")  # what no name of ours has in it


@dataclass(frozen=True, slots=True)
class Host:
    """A host that executors run on.

    Attributes:
        executors: their ids.
        cores: how many cores they have together.
    """

    executors: tuple[str, ...]
    cores: int


class HostReader:
    """Returns for each host its executors as they are by now; none where the driver runs all tasks.

    It asks Spark's scheduler which executors it has, and reads their hosts where they are others
    than before: a few calls to Java for each batch, regardless of how many executors there are.

    Args:
        session: the session.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._ids: frozenset[str] | None = None  # of the executors that were read
        self._hosts: dict[str, Host] = {}

    def __call__(self) -> dict[str, Host]:
        """Return the hosts by name, in order."""
        java: Any = self._context._jsc  # noqa: SLF001  # PySpark has no other way
        if java.isLocal():
            return {}
        ids = frozenset(filter(None, str(java.sc().getExecutorIds().mkString(",")).split(",")))
        if ids != self._ids:
            # What Spark keeps for its reports may know of changes a little later.
            known = {name: at for name, at in _listed(java).items() if name in ids}
            self._hosts = _by_host(known)
            self._ids = ids if len(known) == len(ids) else None
        return self._hosts


class SparkExecutors:
    """Acquires executors and gives them back: a `Provisioner` for `SparkEngine`.

    Spark takes a number of executors and says itself where they run; each node is taken to want as
    many as hosts have by now on average. What is given back are all executors of a host. The
    cluster manager has to allow for it, as standalone, YARN and Kubernetes do, and
    ``spark.dynamicAllocation.enabled`` has to be off, for it decides the same.
    """

    def acquire(self, count: int, total: int, /) -> None:
        """Tell Spark how many executors the application wants in all.

        Raises:
            PlanError: Spark has no way to, or refuses.
        """
        _request(total, f"{count} nodes more than there are")

    def cancel(self, count: int, total: int, /) -> None:
        """Tell Spark that it wants fewer executors; those that are there stay.

        Raises:
            PlanError: Spark has no way to, or refuses.
        """
        _request(total, f"{count} nodes less than before")

    def release(self, nodes: Sequence[str], /) -> None:
        """Have all executors of these hosts end, and no others begin in their place.

        Raises:
            PlanError: Spark has no way to, or refuses.
        """
        context = _context()
        hosts = HostReader(SparkSession(context))()
        ids = [name for node in nodes if node in hosts for name in hosts[node].executors]
        if not ids:
            return  # they have ended by themselves
        named: Any = context._jvm.PythonUtils.toSeq(ids)  # noqa: SLF001
        if not context._jsc.sc().killExecutors(named):  # noqa: SLF001
            raise PlanError(
                f"Spark did not end executors {', '.join(ids)} on {', '.join(nodes)}; see its log "
                "for what the cluster manager said"
            )

    def __repr__(self) -> str:
        return "SparkExecutors()"


def rack_of(session: SparkSession, host: str) -> str | None:
    """Return the rack of a host, if Spark's scheduler knows it, as YARN's does; None if not."""
    java: Any = session.sparkContext._jsc  # noqa: SLF001  # PySpark has no other way
    try:
        found = java.sc().taskScheduler().getRackForHost(host)
    except Py4JError as error:  # a scheduler of others need not have that
        _LOG.debug("the rack of %s is not known", host, exc_info=error)
        return None
    path = str(found.get()) if found.isDefined() else _NO_RACK
    return None if path == _NO_RACK else _UNNAMED.sub("-", path.strip("/").replace("/", ":"))


def _request(total: int, words: str) -> None:
    """Tell Spark of how many nodes the application wants the executors, in all."""
    context = _context()
    java = context._jsc.sc()  # noqa: SLF001  # PySpark has no other way
    hosts = HostReader(SparkSession(context))()
    executors = sum(len(host.executors) for host in hosts.values())
    each = ceil(executors / len(hosts)) if hosts else 1
    none: Any = context._jvm.PythonUtils.toScalaMap({})  # noqa: SLF001
    if not java.requestTotalExecutors(total * each, 0, none):
        raise PlanError(
            f"Spark did not take the request for {total * each} executors, {words}; see its log "
            "for what the cluster manager said"
        )


def _context() -> Any:
    """Return the context of this process, if executors of it can come and go."""
    context: Any = SparkContext._active_spark_context  # noqa: SLF001  # as SparkSession itself does
    if context is None:
        raise PlanError("no Spark session is there to acquire executors for; begin one")
    if context._jsc.isLocal():  # noqa: SLF001
        raise PlanError(
            f"Spark runs as {context.master!r}, where there are no executors to acquire or give "
            "back; run it on a cluster, or leave the provisioner out"
        )
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        raise PlanError(
            "spark.dynamicAllocation.enabled is true, so Spark decides itself how many executors "
            "there are; set it to false, or leave the provisioner out"
        )
    return context


def _listed(java: Any) -> dict[str, tuple[str, int]]:
    """Return for each executor but the driver its host and its cores.

    One that has just come has no address in Spark's books yet, and is left out.
    """
    found = {}
    store = java.sc().statusStore().executorList(True)  # noqa: FBT003
    for number in range(store.size()):
        executor = store.apply(number)
        host = str(executor.hostPort()).rpartition(":")[0]
        if host and executor.id() != "driver":
            found[str(executor.id())] = host, int(executor.totalCores())
    return found


def _by_host(known: dict[str, tuple[str, int]]) -> dict[str, Host]:
    names = sorted({host for host, _ in known.values()})
    return {
        host: Host(
            tuple(sorted(name for name, (place, _) in known.items() if place == host)),
            sum(cores for place, cores in known.values() if place == host),
        )
        for host in names
    }
