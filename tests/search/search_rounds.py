"""The side of the search that runs inside pytest: one property, in rounds of fresh examples.

What happens is written to a file, a line of JSON at a time, so that it is known how far a process
came that did not come to its end.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, Verbosity, is_hypothesis_test, seed, settings, statistics

settings.register_profile("search", settings.get_profile("default"), deadline=None)

FIRST_ROUND = 50
"""Examples at most of the first round of a property, so that each has one even if all are slow."""

EXHAUSTED = "nothing left to do"
"""What Hypothesis says when it has tried every input that there is."""


def pytest_addoption(parser):
    parser.addoption("--search-list", help="write the properties that there are to this file")
    parser.addoption("--search-task", help="search as this file says")


def pytest_configure(config):
    if config.getoption("search_list"):
        config.pluginmanager.register(Listing(Path(config.getoption("search_list"))))
    if config.getoption("search_task"):
        task = json.loads(Path(config.getoption("search_task")).read_text("utf-8"))
        config.pluginmanager.register(Rounds(task, config.rootpath))


def name_of(item):
    """Return the file of a test and what it is called there, as pytest takes them."""
    path, root = item.path, item.config.rootpath
    file = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{file}::{item.nodeid.partition('::')[2]}"


def is_property(item):
    return isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)


class Listing:
    """Runs nothing, and says what properties there are."""

    def __init__(self, path):
        self.path = path

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        names = [name_of(item) for item in items if is_property(item)]
        self.path.write_text(json.dumps(names), "utf-8")
        items[:] = []


class Rounds:
    """Runs one property, until it has had as many examples as it should, or its time is over."""

    def __init__(self, task, root):
        self.task, self.root = task, root
        self.journal = Path(task["journal"]).open("a", encoding="utf-8")  # noqa: SIM115 - until the end
        self.stats = {}
        describe = statistics.describe_statistics

        def described(stats):
            self.stats = stats
            return describe(stats)

        statistics.describe_statistics = described

    def say(self, **event):
        self.journal.write(json.dumps(event) + "\n")
        self.journal.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if name_of(item) == self.task["name"]]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        started, number, examples = time.monotonic(), self.task["round"], self.task["examples"]
        while examples < self.task["wanted"]:
            self.say(event="round", round=number)
            begun, wanted = time.monotonic(), self.examples_of(number, examples)
            reports = self.run(item, number, wanted)
            found = counted(self.stats)
            examples += found["examples"]
            self.say(event="examples", seconds=time.monotonic() - started, **found)
            failed = [report for report in reports if report.failed]
            if failed:
                self.say(event="failed", round=number, text=told(failed[0]))
                break
            if any(report.skipped for report in reports):
                self.say(event="skipped", text=told(reports[0]))
                break
            number += 1
            now = time.monotonic()
            # A round is not cut off, so that it can be repeated; so none begins that is too long.
            longer = (now - begun) * self.examples_of(number, examples) / wanted
            over = now - started + longer > self.task["seconds"]
            if found["exhausted"] or over or time.time() > self.task["until"]:
                break
        self.say(event="end", files=loaded(self.root, item.path))
        return True

    def examples_of(self, number, examples):
        """How many examples a round has, given how many those before it had."""
        most = self.task["at_once"] if number else min(FIRST_ROUND, self.task["at_once"])
        return min(most, self.task["wanted"] - examples)

    def run(self, item, number, examples):
        """Run the property once, with this number of examples, of this round only."""
        name = f"{self.task['seed']} {self.task['name']} {number}"
        drawn = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        test = getattr(item.obj, "__func__", item.obj)
        machine = getattr(test, "_hypothesis_state_machine_class", None)
        known = getattr(test, "_hypothesis_internal_use_settings", settings.default)
        if machine is not None:
            known = item.cls.settings
        wanted = settings(
            known,
            max_examples=examples,
            derandomize=False,
            database=None,
            deadline=None,
            print_blob=True,
            phases=(Phase.generate, Phase.target, Phase.shrink),
            verbosity=Verbosity.verbose if self.task["verbose"] else Verbosity.normal,
            # Whether examples come fast enough is judged by how many of them there were.
            suppress_health_check=[
                *known.suppress_health_check,
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        )
        seed(drawn)(test if machine is None else machine)
        if machine is None:
            test._hypothesis_internal_use_settings = wanted  # noqa: SLF001 - as its own plugin does
        else:
            item.cls.settings = wanted
        self.stats = {}
        return runtestprotocol(item, nextitem=None, log=False)


def counted(stats):
    """How many examples were tried that the property is about, and whether these were all."""
    cases = stats.get("generate-phase", {}).get("test-cases", [])
    return {
        "examples": sum(case["status"] == "valid" for case in cases),
        "exhausted": stats.get("stopped-because") == EXHAUSTED,
    }


def told(report):
    sections = [f"--- {title} ---\n{text}" for title, text in report.sections]
    return "\n".join([report.longreprtext, *sections])


def loaded(root, tests):
    """The files of ours that are loaded, those tests among them, and what is in them."""
    paths = {
        Path(module.__file__)
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None)
    }
    ours = {
        path
        for path in paths
        if path.suffix == ".py" and path.is_relative_to(root) and "site-packages" not in path.parts
    }
    return {
        str(path.relative_to(root) if path.is_relative_to(root) else path): digest_of(path)
        for path in sorted(ours | {tests})
    }


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
