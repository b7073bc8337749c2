"""Drivers and compactions that begin at one moment: the one sees the other."""

import threading

import pytest

from optimizers.errors import CheckpointError
from optimizers.runtime.log import live_drivers, presence
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.presence import Presence


def test_it_is_told_of_once_until_it_ends_and_may_begin_again(checkpoint):
    driver = Presence(checkpoint)
    for _ in range(2):
        assert driver.begin()
        assert not driver.begin()
        assert 1 == len(checkpoint.drivers())
        for _ in range(2):
            driver.end()
            assert [] == checkpoint.drivers()


def test_those_before_it_are_forgotten_with_its_first_commit(checkpoint):
    earlier, driver, later = (Presence(checkpoint) for _ in range(3))
    for each in (earlier, driver, later):
        each.begin()

    driver.committed()

    assert 2 == len(checkpoint.drivers())
    later.end()
    driver.committed()
    driver.end()
    earlier.end()
    assert [] == checkpoint.drivers()


def test_it_waits_for_a_compaction_that_may_not_have_seen_it(checkpoint):
    compaction = checkpoint.announce(compacts=True)
    driver, begun = Presence(checkpoint), threading.Event()
    thread = threading.Thread(target=lambda: (driver.begin(), begun.set()))
    thread.start()
    assert not begun.wait(0.3)
    assert 2 == len(checkpoint.drivers())  # so that the compaction sees it

    checkpoint.withdraw(compaction)

    assert begun.wait(10)
    thread.join()


def test_it_does_not_wait_for_ever_or_for_what_is_gone(checkpoint, monkeypatch, caplog):
    compaction = checkpoint.announce(compacts=True)
    monkeypatch.setattr(presence, "_COMPACTION_PATIENCE", 0.2)
    driver = Presence(checkpoint)
    assert driver.begin()
    assert f"begins beside a compaction, by {compaction}" in caplog.text
    driver.end()

    caplog.clear()
    monkeypatch.setattr(live_drivers, "_is_there", lambda pid: False)
    assert driver.begin()
    assert "" == caplog.text


def test_it_is_not_there_if_it_cannot_begin(checkpoint, monkeypatch):
    with monkeypatch.context() as broken:

        def fail(self):
            raise CheckpointError("the storage is away; bring it back")

        broken.setattr(Checkpoint, "drivers", fail)
        with pytest.raises(CheckpointError, match="is away"):
            Presence(checkpoint).begin()

    assert [] == checkpoint.drivers()
