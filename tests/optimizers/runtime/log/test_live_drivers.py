"""The drivers that work on a checkpoint: recorded in files that nothing has to trust."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import datetime

import pytest

from optimizers.errors import CheckpointError
from optimizers.runtime.log import live_drivers as drivers
from optimizers.runtime.log.live_drivers import announce, drivers_at, withdraw
from optimizers.runtime.storage.location import Location


@pytest.fixture
def here(tmp_path):
    return Location(tmp_path)


def test_a_driver_is_told_of_until_it_withdraws(here):
    assert [] == drivers_at(here)
    one, other = announce(here), announce(here)

    assert {one, other} == set(drivers_at(here))
    assert one.may_live
    assert f"process {os.getpid()} on {socket.gethostname()}, since 20" in str(one)
    withdraw(here, one)
    withdraw(here, one)
    assert [other] == drivers_at(here)


def test_those_that_began_first_come_first(here, monkeypatch):
    found = []
    for minute in (3, 1, 2):
        monkeypatch.setattr(drivers, "datetime", _At(minute))
        found.append(announce(here))

    assert [found[1], found[2], found[0]] == drivers_at(here)


class _At:
    """A clock that stands still."""

    def __init__(self, minute):
        self.minute = minute

    def now(self, zone):
        return datetime(2026, 1, 1, 0, self.minute, tzinfo=zone)


def test_a_process_that_was_killed_does_not_live(here):
    code = (
        "import os, sys; from optimizers.runtime.log.live_drivers import announce; "
        "from optimizers.runtime.storage.location import Location; "
        "announce(Location(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, here.root], check=False)

    assert -9 == ended.returncode
    (driver,) = drivers_at(here)
    assert not driver.may_live


def test_of_a_process_on_another_machine_or_in_another_container_nobody_knows(here):
    driver = replace(announce(here), pid=2**22 + 1)

    assert not driver.may_live
    assert replace(driver, host="elsewhere/pid:[1]").may_live
    assert replace(driver, host=driver.host.split("/")[0] + "/pid:[1]").may_live


def test_a_process_of_another_user_lives(here, monkeypatch):
    def forbidden(pid, signal):
        raise PermissionError

    monkeypatch.setattr(drivers.os, "kill", forbidden)
    assert announce(here).may_live


def test_one_that_withdraws_while_it_is_read_is_not_told_of(here, monkeypatch):
    one, other = announce(here), announce(here)
    read = Location.read_bytes

    def gone(self, name):
        withdraw(here, one)
        return read(self, name)

    monkeypatch.setattr(Location, "read_bytes", gone)
    assert [other] == drivers_at(here)


def test_a_file_that_is_damaged_is_named(here):
    driver = announce(here)
    here.write_atomically(f"drivers/{driver.name}.json", b"{}")
    here.write_new("drivers/.cut.json.tmp", b"")

    with pytest.raises(CheckpointError, match=rf"{driver.name}\.json cannot be used"):
        drivers_at(here)
