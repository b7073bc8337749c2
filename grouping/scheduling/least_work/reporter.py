"""The instance's half of `LeastWork`: it reports when its work differs from what was expected."""

import math

from grouping.feedback import Letters, Message, Reporter
from grouping.scheduling.least_work.messages import Expected, Report
from sketches.errors import InvalidValueError

_BURST = 4.0  # reports that may be saved up
_MOST = 256  # the most tuples in a report, so that none grows without end
_EARLY = 5  # reports that are always sent: after 1, 2, 4, 8 and 16 tuples
_RISE = 1.1  # by how much the threshold changes when reports come too often, or could be more


class WorkReporter(Reporter):
    """Adds up the differences between the costs of tuples and those that their senders expected.

    While the two agree, a sender knows the length of the queue here without a message. So none is
    sent until they differ by more than a threshold, and the message then says all: how far the
    queue has come, and the cost of each key. Where costs are unpredictable noise, the threshold
    rises until messages are as rare as allowed.

    Args:
        instance: the instance.
        senders: how many instances send to it.
        messages: the most reports per tuple.
        tolerance: the least threshold, in costs of an average tuple.
    """

    def __init__(self, instance: int, *, senders: int, messages: float, tolerance: float) -> None:
        self._instance = instance
        self._messages = messages
        self._tolerance = tolerance
        self._executed = 0
        self._busy = 0.0
        self._drift = 0.0
        self._accounts = [_Account() for _ in range(senders)]

    def executed(
        self, sender: int, code: int, seconds: float, now: float, carried: Message | None
    ) -> Letters:
        """Note that a tuple was executed; return a report for its sender if one is due."""
        if not 0.0 <= seconds < math.inf:
            raise InvalidValueError(
                f"seconds={seconds!r} of a tuple at instance {self._instance} are not a time; "
                "give a finite number from 0 up"
            )
        if sender not in range(len(self._accounts)):
            raise InvalidValueError(
                f"sender={sender!r} of a tuple at instance {self._instance} is out of range; it "
                f"must be from 0 to {len(self._accounts) - 1}"
            )
        account = self._accounts[sender]
        self._executed += 1
        self._busy += seconds
        if isinstance(carried, Expected):
            self._drift += seconds - carried.seconds
            account.done = max(account.done, carried.number)
        else:
            self._drift += seconds
        count, spent = account.tallies.get(code, (0, 0.0))
        account.tallies[code] = (count + 1, spent + seconds)
        account.waiting += 1
        account.mine += seconds
        account.allowed = min(account.allowed + self._messages, _BURST)
        if not self._is_due(account):
            return ()
        return ((sender, self._report(account)),)

    def _is_due(self, account: "_Account") -> bool:
        if account.serial < _EARLY:
            # A sender that knows nothing yet gets its first reports soon.
            return account.waiting >= 1 << account.serial
        if account.allowed < 1.0:
            return False
        usual = self._busy / self._executed
        drifted = abs(self._drift - account.reported)
        return drifted > account.threshold * self._tolerance * usual or account.waiting >= _MOST

    def _report(self, account: "_Account") -> Report:
        if account.serial >= _EARLY:
            often = account.waiting * self._messages < 1.5
            account.threshold = max(1.0, account.threshold * (_RISE if often else 1 / _RISE))
        account.serial += 1
        account.allowed -= 1.0
        account.reported = self._drift
        account.waiting = 0
        tallies = tuple((code, *known) for code, known in account.tallies.items())
        account.tallies = {}
        return Report(
            self._instance, account.serial, account.done, tallies, account.mine, self._busy
        )


class _Account:
    """The state of reports to one sender, and the content of the next one."""

    __slots__ = (
        "allowed",
        "done",
        "mine",
        "reported",
        "serial",
        "tallies",
        "threshold",
        "waiting",
    )

    def __init__(self) -> None:
        self.allowed = _BURST
        self.done = 0
        self.mine = 0.0
        self.serial = 0
        self.tallies: dict[int, tuple[int, float]] = {}
        self.threshold = 1.0
        self.reported = 0.0
        self.waiting = 0
