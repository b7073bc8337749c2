"""The clock that stands still while others have the processor."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from optimizers.runtime.observe import busy_clock
from optimizers.runtime.observe.busy_clock import BusyClock

TOLD = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="nobody tells how long threads wait"
)


def spin(seconds):
    """Use the processor for so long, however long that takes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_it_never_goes_backwards():
    clock = BusyClock()
    times = []
    for _ in range(300):
        spin(0.0001)
        times.append(clock())
    assert sorted(times) == times


def test_what_is_waited_for_otherwise_counts():
    clock = BusyClock()
    started = clock()
    time.sleep(0.05)
    assert 0.0495 < clock() - started


@TOLD
def test_what_others_do_meanwhile_does_not_count():
    everywhere = os.sched_getaffinity(0)
    rival = f"import os; os.sched_setaffinity(0, {{{min(everywhere)}}})\nwhile True: pass"
    found = {}

    def work():
        os.sched_setaffinity(0, {min(everywhere)})
        clock = BusyClock()
        started, wall, mine = clock(), time.perf_counter(), time.thread_time()
        spin(0.3)
        found["busy"] = clock() - started
        found["wall"] = time.perf_counter() - wall
        found["mine"] = time.thread_time() - mine

    rivals = [subprocess.Popen([sys.executable, "-c", rival]) for _ in range(2)]
    try:
        time.sleep(0.5)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        for process in rivals:
            process.kill()
            process.wait()
    # Two others on the same processor: it takes about three times as long as it should.
    assert found["wall"] > 1.5 * found["mine"]
    assert found["busy"] == pytest.approx(found["mine"], rel=0.1)


def test_where_nobody_tells_it_is_the_clock_on_the_wall(monkeypatch):
    monkeypatch.setattr(busy_clock, "_PLACE", "/nowhere/at/all")
    clock = BusyClock()
    before = time.perf_counter()
    now = clock()
    assert before <= now <= time.perf_counter()


@TOLD
def test_nobody_is_asked_again_and_again_in_a_short_time(monkeypatch):
    clock = BusyClock()
    asked = []
    monkeypatch.setattr(BusyClock, "_waited_so_far", lambda self: asked.append(1) or 0.0)
    monkeypatch.setattr(busy_clock, "_GAP", 10.0)
    for _ in range(1_000):
        clock()
    assert [1] == asked
