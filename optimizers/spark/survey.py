"""What the hosts of a session have: each is asked once, by a task that runs there."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from optimizers.spark.executors import Host
from optimizers.spark.hosts import executor_host
from optimizers.spark.machine_facts import MachineFacts, facts_here
from optimizers.spark.pinning import rows_at
from optimizers.spark.shipping import is_local, ship

_LOG = logging.getLogger(__name__)

_TRIES = 2  # a task may run elsewhere than it was wished to
_ANSWER = "host string, facts string"


class Survey:
    """Finds out what hosts have, and remembers it for as long as they are there.

    Args:
        session: the session.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._here: MachineFacts | None = None
        self._known: dict[str, MachineFacts] = {}
        self._tries: dict[str, int] = {}  # of hosts that have not answered

    @property
    def here(self) -> MachineFacts | None:
        """What the machine has on which all tasks run beside the driver; None if none do."""
        if self._here is None and is_local(self._session.sparkContext):
            self._here = facts_here()
        return self._here

    def of(self, hosts: Mapping[str, Host]) -> dict[str, MachineFacts]:
        """Return what is known of these hosts, by name; no other tasks may be running.

        A job of Spark asks those that are new, with one task for each.
        """
        self._known = {host: facts for host, facts in self._known.items() if host in hosts}
        self._tries = {host: tries for host, tries in self._tries.items() if host in hosts}
        if self.here is not None:
            return {}  # tasks of a local session do not know of hosts
        while silent := {
            host: at
            for host, at in hosts.items()
            if host not in self._known and self._tries.get(host, 0) < _TRIES
        }:
            self._tries |= {host: self._tries.get(host, 0) + 1 for host in silent}
            self._known |= self._told(silent)
        return {host: self._known[host] for host in hosts if host in self._known}

    def _told(self, hosts: Mapping[str, Host]) -> dict[str, MachineFacts]:
        """Return what tasks say that were sent to these hosts; where they ran, they say as well."""
        executors = ([(host, name) for name in at.executors] for host, at in hosts.items())
        try:
            ship(self._session.sparkContext)
            rows = rows_at(self._session, dict(enumerate(executors)))
            answers = rows.mapInArrow(_answer, _ANSWER).toArrow().to_pylist()
        except (PySparkException, Py4JError) as error:
            _LOG.warning("hosts %s were not asked what they have: %s", list(hosts), error)
            return {}
        return {
            str(answer["host"]): MachineFacts.from_dict(json.loads(answer["facts"]))
            for answer in answers
        }


def _answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what the machine has on which this runs, once; nothing if its name is not known."""
    host = executor_host()
    if any([len(batch) for batch in batches]) and host is not None:  # noqa: C419  # all are read
        told = json.dumps(facts_here().to_dict())
        yield pa.RecordBatch.from_pydict({"host": [host], "facts": [told]})
