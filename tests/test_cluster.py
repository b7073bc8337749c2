"""A real cluster on loopback addresses, whose hosts leave, come and are given back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parent / "cluster" / "machines.py"


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux 127.0.0.2 is this machine, too")
def test_a_keyed_stream_stays_exact_and_where_the_plan_says_while_hosts_leave_and_come():
    # In a process of its own, as a process has one session of Spark, and the tests have theirs.
    with subprocess.Popen(
        [sys.executable, COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told, errors = process.communicate(timeout=600)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its workers and executors

    assert "all is as it should be" == told.splitlines()[-1], told + errors
    assert 0 == process.returncode
