"""A driver's presence at a checkpoint: announced before it looks at the state that it goes on from.

A compaction removes files, and a driver reads which files there are when it begins. So each first
says that it is there, and looks for the other only then: one of the two sees the other at least. A
driver that finds a compaction at work waits a little, as that stops once it sees the driver; a
compaction that finds a driver changes nothing.
"""

import logging
import time

from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.live_drivers import Driver

_LOG = logging.getLogger(__name__)

_COMPACTION_PATIENCE = 10.0  # seconds: a compaction looks for drivers shortly before its commit
_LOOK = 0.1  # seconds between two looks


class Presence:
    """Says that this driver works on a checkpoint, for as long as it does.

    >>> import tempfile
    >>> from optimizers import Topology
    >>> from optimizers.runtime.storage.location import Location
    >>> job = Topology.source("words").then("count", key="word")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint.create_or_open(Location(folder), job)
    ...     presence = Presence(checkpoint)
    ...     print(presence.begin(), presence.begin(), len(checkpoint.drivers()))
    ...     presence.end()
    ...     print(len(checkpoint.drivers()))
    True False 1
    0

    Args:
        checkpoint: the checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._driver: Driver | None = None
        self._earlier: list[Driver] = []  # those that were there before

    def begin(self) -> bool:
        """Announce the driver, unless it is; return whether it had to be.

        State that is looked at after this stays until the driver has committed a batch.
        """
        if self._driver is not None:
            return False
        self._driver = self._checkpoint.announce()
        try:
            self._earlier = self._others()
            deadline = time.monotonic() + _COMPACTION_PATIENCE
            while compacting := self._compactions():
                if time.monotonic() > deadline:
                    _LOG.warning("the job begins beside a compaction, by %s", compacting[0])
                    break
                time.sleep(_LOOK)
        except BaseException:
            self.end()
            raise
        return True

    def end(self) -> None:
        """Note that the driver no longer works here; it may begin again."""
        driver, self._driver = self._driver, None
        if driver is not None:
            self._checkpoint.withdraw(driver)

    def committed(self) -> None:
        """Note that it has committed: no driver that worked here before can do so any more."""
        for driver in self._earlier:
            self._checkpoint.withdraw(driver)
        self._earlier = []

    def _others(self) -> list[Driver]:
        return [driver for driver in self._checkpoint.drivers() if driver != self._driver]

    def _compactions(self) -> list[Driver]:
        return [driver for driver in self._others() if driver.compacts and driver.may_live]
