"""Sessions of commands: on a cluster they wait until its executors are there."""

from types import SimpleNamespace

import pytest

from optimizers.errors import InvalidValueError
from optimizers.spark import command_session
from optimizers.spark.executors import Host


class Clock:
    """A time that passes by sleeping only; and the hosts there are from some time on."""

    def __init__(self, *since):
        self.now, self.since = 0.0, since

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def __call__(self):
        there = [name for name, since in self.since if since <= self.now]
        return {name: Host((name,), 1) for name in there}


def awaited(monkeypatch, clock):
    monkeypatch.setattr(command_session, "time", clock)
    monkeypatch.setattr(command_session, "HostReader", lambda session: clock)
    command_session._await_executors(SimpleNamespace(), "spark://h:1")  # noqa: SLF001
    return clock.now


def test_it_waits_until_no_more_hosts_come(monkeypatch):
    # It looks ten times a second.
    assert awaited(monkeypatch, Clock(("x", 0.0))) == pytest.approx(3.0, abs=0.3)
    assert awaited(monkeypatch, Clock(("x", 20.0))) == pytest.approx(23.0, abs=0.3)
    assert awaited(monkeypatch, Clock(("x", 1.0), ("y", 3.5))) == pytest.approx(6.5, abs=0.3)


def test_it_says_that_none_has_come(monkeypatch):
    with pytest.raises(InvalidValueError, match=r"no executor of 'spark://h:1' came within 60 s"):
        awaited(monkeypatch, Clock())
