"""`penstock compare` without Spark: what it shows, when it fails, and with which exit code."""

import io
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from optimizers.cli import compare, main
from optimizers.comparing import ComparedBatch, Comparison, Difference, Outcome, RunSummary
from optimizers.control.part_summaries import EdgeSummary, OperatorSummary
from optimizers.plugins import registered
from optimizers.simulation import SimulationEngine
from optimizers.spark import command_session
from optimizers.workloads import workload


def facts(batch, local):
    operators = (OperatorSummary("a", (1, 1), (0.5, 0.5), spread_by="key"),)
    edges = (EdgeSummary("in", "a", 100.0, 9.0, local, None, 4.0, hop=True),)
    return RunSummary(1, 100, 1.0, operators, edges, first=batch, makespan=0.5)


def comparison(difference=None, name="ours"):
    variants = (
        Outcome("hash", "", tuple(facts(b, 50.0) for b in range(3))),
        Outcome(name, "", tuple(facts(b, 90.0) for b in range(3)), difference=difference),
    )
    return Comparison("t", "in x1", "Spark 4", 2, True, 2, variants)  # noqa: FBT003


@pytest.fixture
def asked(monkeypatch):
    """Let the command compare without Spark; what it asks for is returned."""
    seen = {"result": comparison()}

    @contextmanager
    def session(cores, master):
        seen.update(cores=cores, master=master)
        yield SparkSession.__new__(SparkSession)  # that is never asked anything

    def compared(topology, stream, variants, **options):
        seen.update(options, batches=len(list(stream)), variants=variants)
        options["watch"](ComparedBatch(0, "", 0.1))
        return seen["result"]

    monkeypatch.setattr(command_session, "command_session", session)
    monkeypatch.setattr(compare, "compare", compared)
    return seen


def test_without_arguments_it_compares_hash_the_published_method_and_ours(asked, capsys):
    assert 0 == main(["compare"])

    shown = capsys.readouterr()
    assert ["hash", "published", "locality"] == list(asked["variants"])
    assert (12, 3, "*") == (asked["batches"], asked["engine"].every, asked["cores"])
    assert asked["master"] is None
    assert "" == shown.err
    assert comparison().table() in shown.out
    assert comparison().summary() in shown.out


def test_a_terminal_that_knows_ascii_only_gets_what_it_can_show(asked, monkeypatch):
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    asked["result"] = comparison(name="l\u00f6sung")

    assert 0 == main(["compare"])

    shown.seek(0)
    assert "l?sung" in shown.read()


def test_what_is_asked_for_is_done(asked, tmp_path):
    file = tmp_path / "found.json"
    options = ["--batches", "5", "--every", "2", "--scale", "0.01", "--seed", "9", "--cores", "1"]

    assert 0 == main(["compare", "shuffled", "--with", "hash", *options, "--json", str(file)])

    assert (["hash"], 5, 2, 1) == (
        list(asked["variants"]),
        asked["batches"],
        asked["engine"].every,
        asked["cores"],
    )
    assert "shuffled, scale 0.01, seed 9" == asked["title"]
    assert comparison() == Comparison.from_json(file.read_text())


def test_wrong_results_are_shown_and_end_with_exit_code_1(asked, capsys):
    asked["result"] = comparison(Difference("state of operator 'a'", "k=1", "n", "1", "2"))

    assert 1 == main(["compare"])

    assert "THE RESULTS OF ours ARE WRONG" in capsys.readouterr().out


def test_it_runs_on_a_cluster_where_one_is_named(asked, tmp_path):
    assert 0 == main(["compare", "--master", "spark://host:7077", "--checkpoint", str(tmp_path)])

    assert "spark://host:7077" == asked["master"]
    assert str(tmp_path) == asked["engine"].checkpoint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["posts"], "unknown workload 'posts'; known: 'airline', 'edits', 'reach', 'shuffled', 't"),
        (["no_such_module:orders"], "workload 'no_such_module:orders' cannot be imported"),
        (["math:pi"], "workload 'math:pi' is a float and no Workload"),
        (["--with", "borealis"], "unknown strategy 'borealis'"),
        (["--with", "no_such_module:X"], "strategy 'no_such_module:X' cannot be imported: Modul"),
        (["--with", "math:X"], "strategy 'math:X' cannot be imported: AttributeError"),
        (["--with", "builtins:dict"], "strategy 'builtins:dict' (by its import path) is a dict"),
        (["--batches", "2"], "batches=2 is out of range; it must be at least 3"),
        (["--scale", "0"], "scale=0.0 is out of range"),
        (["--seed", "-1"], "seed=-1 is out of range"),
        (["--every", "0"], "every=0 is out of range"),
        (["--cores", "0"], "cores=0 is out of range"),
        (["--json", "/no/such/folder/x.json"], "/no/such/folder/x.json cannot be written"),
        (["--json", "/proc/x.json"], "/proc/x.json cannot be written"),
        (["--json", "/proc"], "/proc cannot be written"),
        (["--scale", "1e9"], "scale=1000000000.0 is out of range"),
        (["--master", "m"], "master='m' and checkpoint=None: a cluster needs an empty folder"),
        (["--checkpoint", "x"], "master=None and checkpoint='x': a cluster needs an empty"),
        (["--master", "m", "--checkpoint", "x", "--cores", "2"], "master='m' means nothing to a"),
        (["--rate", "10"], "rate=10.0 means nothing on Spark, where a batch comes when the one"),
        (["--engine", "simulation", "--rate", "0"], "rate=0.0 is out of range"),
        (["--engine", "simulation", "--cores", "2"], "cores=2 means nothing to a simulation"),
        (
            ["--engine", "simulation", "any_workloads:untimed"],
            "workload 'untimed' does not say what takes time, and a simulation does not run",
        ),
        (
            ["--engine", "simulation", "any_workloads:unpaced"],
            "workload 'unpaced' does not say how fast tuples come in a simulation; give Workload(r",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(asked, arguments, message, capsys):
    assert 2 == main(["compare", *arguments])

    told = capsys.readouterr().err
    assert f"penstock: {message}" in told
    assert 1 == told.count("\n")
    assert "engine" not in asked


def test_a_simulation_is_asked_for_with_its_rate_and_without_spark(asked):
    options = ["--every", "2", "--seed", "5", "--batches", "4"]

    assert 0 == main(["compare", "reach", "--engine", "simulation", "--rate", "50", *options])

    engine = asked["engine"]
    assert isinstance(engine, SimulationEngine)
    assert (2, 50.0, 5) == (engine.every, engine.rate, engine.seed)
    assert workload("reach").work == engine.work
    assert "cores" not in asked
    assert 0 == main(["compare", "--engine", "simulation"])
    assert workload("trending").rate == asked["engine"].rate


def test_a_workload_that_says_no_rate_takes_one_from_the_command(asked):
    arguments = ["compare", "any_workloads:unpaced", "--engine", "simulation", "--rate", "7"]

    assert 0 == main(arguments)
    assert 7.0 == asked["engine"].rate


def test_nothing_of_spark_is_loaded_for_a_simulation():
    program = (
        "import sys\n"
        "from optimizers.cli import main\n"
        "code = main('compare --engine simulation --scale .01 --batches 4'.split())\n"
        "assert not code\n"
        "assert 'pyspark' not in sys.modules\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "a simulation with Network(latency=0.0005, bandwidth=125000000.0" in ran.stdout
    assert "latency of a tuple, mean s" in ran.stdout
    assert "Times are simulated" in ran.stdout


def test_in_a_terminal_the_best_are_coloured_and_names_are_only_text():
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, color_system="standard", width=100)

    compare.show(comparison(name="[red]x[/red]"), terminal)

    shown = written.getvalue()
    assert re.search(r"\x1b\[1;32m *90\.0%", shown)
    assert not re.search(r"\x1b\[1;32m *50\.0%", shown)
    assert "[red]x[/red]" in shown


def test_an_error_in_a_variant_is_told_with_its_name(asked, monkeypatch, capsys):
    def refuse(*_, **__):
        error = compare.InvalidValueError("no\nway")
        error.add_note("in variant 'ours', in batch 3")
        raise error

    monkeypatch.setattr(compare, "compare", refuse)

    assert 2 == main(["compare"])

    assert "penstock: no way (in variant 'ours', in batch 3)\n" == capsys.readouterr().err
    with pytest.raises(compare.InvalidValueError, match="no"):
        main(["--debug", "compare"])


def test_an_interruption_ends_with_exit_code_130(asked, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "compare", interrupted)

    assert 130 == main(["compare"])
    assert "penstock: interrupted\n" == capsys.readouterr().err


def test_the_workloads_are_listed(capsys):
    assert 0 == main(["workloads"])

    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert ["airline", "edits", "reach", "shuffled", "trending"] == shown


def test_the_strategies_are_listed_a_line_each(capsys):
    assert 0 == main(["strategies"])

    lines = capsys.readouterr().out.splitlines()
    assert list(registered()) == [line.split()[0] for line in lines]
    assert all(len(line.split()) > 2 for line in lines)


def test_a_workload_may_stand_in_a_module_of_the_working_directory(asked, tmp_path, monkeypatch):
    source = "from optimizers.workloads import WORKLOADS\nmine = lambda: WORKLOADS['shuffled']\n"
    (tmp_path / "streams_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    assert 0 == main(["compare", "streams_of_mine:mine", "--scale", "0.01"])

    assert "shuffled, scale 0.01, seed 0" == asked["title"]


def test_a_strategy_may_stand_in_a_module_of_the_working_directory(asked, tmp_path, monkeypatch):
    source = "from optimizers import Locality\n\nclass Greedy(Locality):\n    pass\n"
    (tmp_path / "strategies_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    assert 0 == main(["compare", "--with", "hash", "--with", "strategies_of_mine:Greedy(worth=3)"])

    greedy = asked["variants"]["strategies_of_mine:Greedy(worth=3)"]
    assert ("Greedy", 3) == (type(greedy).__name__, greedy.worth)
