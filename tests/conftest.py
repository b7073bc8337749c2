"""What makes a run of the tests the same on every machine: its environment, examples and seed.

Other examples than the fixed ones are asked for by name, with ``--hypothesis-profile=random``, or
looked for by the thousand with ``python tests/search``.
"""

import gc
import os
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from optimizers.runtime.log import mark

SEED = 7

LONG = {Path(__file__).with_name(f"test_{what}.py") for what in ("cluster", "search")}
"""Files with tests of up to a minute: they begin first, so that none runs alone at the end."""

SPARK = "tests/optimizers/spark/"
"""Where tests share a session."""

OWN_SPARK = {SPARK + f"test_{what}.py" for what in ("baselines", "exactly_once", "told_in_a_line")}
"""Files there whose tests mostly begin a Spark of their own, and so need not wait for the others.
"""

# What people set for their terminal, their Spark, their cloud and their network.
THEIRS = re.compile(
    r"NO_COLOR|FORCE_COLOR|CLICOLOR.*|COLUMNS|LINES|TTY_.*|PYTHONWARNINGS|PYTHONIOENCODING"
    r"|PYTHONDONTWRITEBYTECODE"
    r"|(SPARK|PYSPARK|HADOOP|AWS|AZURE|GOOGLE|PENSTOCK)_.*|(_|JDK_)?JAVA_(TOOL_)?OPTIONS"
    r"|(http|https|ftp|all|no)_proxy",
    re.IGNORECASE,
)
for name in filter(THEIRS.fullmatch, list(os.environ)):
    del os.environ[name]
sys.dont_write_bytecode = False  # else each of many processes compiles all modules again
os.environ.update(TERM="xterm", TZ="UTC")
time.tzset()

# All that Hypothesis would set otherwise where it believes to be in a CI.
settings.register_profile(
    "fixed",
    parent=settings.get_profile("default"),
    max_examples=40,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("random", parent=settings.get_profile("fixed"), derandomize=False)
settings.load_profile("fixed")


def pytest_configure(config):
    if config.getoption("hypothesis_profile", None) not in {None, "fixed"}:
        return
    # Some numbers and texts are drawn from those in our modules. Which of them are loaded depends
    # on what other tests are run, and whether they are ours on the name of the folder.
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = providers.Constants  # noqa: SLF001


@pytest.fixture(scope="session", autouse=True)
def one_seed():
    """Give all checkpoints one seed, where each would draw its own: equal runs are to be equal."""

    def drawn():
        return SEED

    drawn.really = mark.drawn_seed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mark, "drawn_seed", drawn)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Flush no files: more than half of the time of jobs in this process went into that.

    No test cuts the power. What is flushed, and when, is tested where files are written, by
    functions that stand in for this one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path not in LONG and not item.nodeid.startswith(SPARK))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a file in one process, and all that share a Spark session in one.

    To begin a second session for them takes longer than it would save.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  # of the plugin that asks

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return SPARK if file.startswith(SPARK) and file not in OWN_SPARK else file

    config.option.loadscopereorder = False  # the longest come first, see above
    return ByFile(config, log)


def pytest_collection_finish():
    """Hide what was collected from the garbage collector, which goes through all it sees."""
    gc.collect()
    gc.freeze()
