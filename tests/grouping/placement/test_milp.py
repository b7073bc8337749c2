"""The program for solvers: what it says, what solvers answer, and what is made of that."""

import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_placements import affordable, problems, strain, traffic_of

from grouping.errors import SolverError
from grouping.placement import PlacementProblem, Traffic, least_distance, place_groups
from grouping.placement.aim import Aim
from grouping.placement.milp import PlacementProgram, improve
from sketches.errors import MissingPackageError

BOTH = pytest.mark.parametrize("solver", ["CBC", "HiGHS"])


def drifted(nodes=20, groups=300, budget=10, seed=0):
    """A problem that no solver is done with within minutes: loads that have drifted."""
    drawn = np.random.default_rng(seed)
    loads = drawn.gamma(2.0, 1.0, groups)
    return PlacementProblem.of(loads, np.arange(groups) % nodes, nodes, budget=budget)


# What the program says.

TWO = {"loads": [3.0, 1.5], "current": [0, 1], "nodes": 2, "budget": 1, "migration_cost": [2, 1]}


def test_the_printed_program_has_the_papers_objective_and_constraints():
    program = PlacementProgram(PlacementProblem.of(**TWO), as_printed=True)

    assert program.lines() == [
        "d - 0.001*d_l - 0.001*d_u",
        "x_0_0 + x_1_0 = 1.0",  # (1)
        "x_0_1 + x_1_1 = 1.0",
        "x_0_1 + 2.0*x_1_0 <= 1.0",  # (2)
        "-d + d_u + 3.0*x_0_0 + 1.5*x_0_1 <= 3.0",  # (3), of a mean of 2.25 that is rounded up
        "d - d_l + 3.0*x_0_0 + 1.5*x_0_1 >= 3.0",  # (4)
        "-d + d_u + 3.0*x_1_0 + 1.5*x_1_1 <= 3.0",
        "d - d_l + 3.0*x_1_0 + 1.5*x_1_1 >= 3.0",
        "d <= 3.0",  # (5)
        "-d + d_u <= 0",
        "-d + d_l <= 0",
    ]
    assert program.left_out == ""


def test_the_printed_program_holds_nodes_that_drain_to_the_mean_from_above_only():
    given = {**TWO, "nodes": 3, "loads": [8.0, 4.0], "capacities": [1, 1, 2], "draining": [1]}
    lines = PlacementProgram(PlacementProblem.of(**given), as_printed=True).lines()

    # The nodes that stay have a capacity of 3, so that the mean is 4.
    bounds = [line for line in lines if "d_" in line and "x" in line]
    assert bounds == [
        "-d + d_u + 8.0*x_0_0 + 4.0*x_0_1 <= 4.0",
        "d - d_l + 8.0*x_0_0 + 4.0*x_0_1 >= 4.0",
        "-d + d_u + 8.0*x_1_0 + 4.0*x_1_1 <= 4.0",
        "-d + d_u + 4.0*x_2_0 + 2.0*x_2_1 <= 4.0",
        "d - d_l + 4.0*x_2_0 + 2.0*x_2_1 >= 4.0",
    ]


def test_ours_has_the_load_distance_alone_and_the_mean_itself_which_is_100():
    lines = PlacementProgram(PlacementProblem.of(**{**TWO, "loads": [3.0, 1.0]})).lines()

    assert lines == [
        "d",
        "x_0_0 + x_1_0 = 1.0",
        "x_0_1 + x_1_1 = 1.0",
        "x_0_1 + 2.0*x_1_0 <= 1.0",
        "-d + 150.0*x_0_0 + 50.0*x_0_1 <= 100.0",
        "d + 150.0*x_0_0 + 50.0*x_0_1 >= 100.0",
        "-d + 150.0*x_1_0 + 50.0*x_1_1 <= 100.0",
        "d + 150.0*x_1_0 + 50.0*x_1_1 >= 100.0",
    ]


def test_ours_does_not_count_nodes_that_drain_unless_it_is_to_empty_them():
    problem = PlacementProblem.of([1.0, 3.0], [0, 1], 2, budget=1, draining=[1])

    counted = [line for line in PlacementProgram(problem).lines() if "d" in line and "x" in line]
    emptying = PlacementProgram(problem, emptying=True).lines()

    assert counted == [
        "-d + 25.0*x_0_0 + 75.0*x_0_1 <= 100.0",
        "d + 25.0*x_0_0 + 75.0*x_0_1 >= 100.0",
    ]
    assert "-d + 25.0*x_1_0 + 75.0*x_1_1 <= -0.0" in emptying


@pytest.mark.parametrize(
    "given",
    [
        {"loads": [1.0] * 6, "current": [0] * 6, "nodes": 3},  # small groups, all on one node
        {"loads": [3.0, 1, 1, 1], "current": [0, 0, 1, 1], "nodes": 2, "capacities": [1, 9]},
        {"loads": [10.0, 1, 1, 1], "current": [0, 0, 1, 2], "nodes": 3},
        {"loads": [[1.0] * 6, [1.0] * 6], "current": [0] * 6, "nodes": 3},
    ],
)
@BOTH
def test_the_printed_program_can_always_be_answered_by_staying_put(given, solver):
    problem = PlacementProblem.of(**given, budget=0)
    program = PlacementProgram(problem, as_printed=True)

    found, proven = program.solve(20, solver)

    assert found.tolist() == problem.current.tolist()
    assert program.left_out.startswith("constraint (5) is left out: the distance would be")
    assert proven == 0.0  # it is not the load distance that the printed program makes smaller


@settings(max_examples=25)
@given(problems(most_groups=5))
def test_the_printed_program_has_an_answer_and_improving_by_it_is_never_worse(given):
    problem = PlacementProblem.of(**given)
    assert PlacementProgram(problem, as_printed=True).solve(20.0)[0] is not None

    found, bound = improve(problem, problem.current, 20.0, "CBC", Aim(problem), as_printed=True)

    assert problem.whole(found)
    assert problem.affords(problem.cost(found))
    assert strain(problem, found) <= strain(problem, problem.current) * (1 + 1e-9)
    assert bound == 0.0


# What solvers prove.


@BOTH
@settings(max_examples=25)
@given(problems(most_groups=5))
def test_what_is_proven_is_below_all_that_is_affordable(solver, given):
    problem = PlacementProblem.of(**given)
    least = min(problem.distance(assignment) for assignment in affordable(problem))

    found, bound = PlacementProgram(problem).solve(20.0, solver)

    assert bound <= least + 1e-9
    assert bound >= least - 1e-4 * problem.mean.max()  # and close to it, as there was time
    assert problem.distance(found) <= least + 1e-4 * problem.mean.max()
    assert place_groups(**given, time_limit=20.0, solver=solver).bound <= least + 1e-9


@BOTH
def test_what_is_proven_is_no_distance_that_a_solver_took_for_a_smaller_one(solver):
    # 1.0 is reached by one move for 2, and a little more by two that are tighter on one side.
    able = np.ones((6, 3), bool)
    able[1], able[2] = [1, 1, 0], [1, 0, 1]
    given = {
        "loads": [1.0, 0.5002, 0.9995, 102 - 1 - 0.5002 - 0.9995, 100.0, 98.0],
        "current": [0, 0, 0, 0, 1, 2],
        "nodes": 3,
        "budget": 2,
        "migration_cost": [2, 1, 1, 99, 99, 99],
        "able": able,
    }
    problem = PlacementProblem.of(**given)
    assert min(map(problem.distance, affordable(problem))) == pytest.approx(1.0)

    found = place_groups(**given, time_limit=10, solver=solver)

    assert found.load_distance == pytest.approx(1.0, abs=1e-9)
    assert 0.999 < found.bound <= 1.0


def test_what_a_solver_has_proven_by_the_end_of_its_time_counts(monkeypatch):
    problem = PlacementProblem.of([4.0, 4.0, 4.0, 0, 0, 0], [0, 0, 0, 1, 1, 1], 2, budget=1)
    said = "Result - Stopped on time limit\nObjective value: 66.6\nLower bound: 30.0\nGap: 1\n"
    answering(monkeypatch, problem, problem.current, said=said)

    _, proven = PlacementProgram(problem).solve(1.0)

    assert proven == pytest.approx(0.3 * 6, rel=1e-4)
    assert proven < 0.3 * 6


def test_nothing_is_proven_by_a_solver_that_says_nothing(monkeypatch):
    problem = PlacementProblem.of([4.0, 0.0], [0, 0], 2, budget=1)
    answering(monkeypatch, problem, problem.current, said="hello")

    assert PlacementProgram(problem).solve(1.0)[1] == 0.0


# What is made of answers.


def answering(monkeypatch, problem, answer, *, said="", status=pulp.LpSolutionOptimal):
    """Have CBC give an answer, or none."""

    def actual_solve(command, model):
        Path(command.optionsDict["logPath"]).write_text(said)
        for variable in model.variables():
            variable.varValue = None
            if variable.name.startswith("x_") and answer is not None:
                node, number = map(int, variable.name.split("_")[1:])
                variable.varValue = float(answer[problem.sets == number][0] == node)
        model.assignStatus(1, status)

    monkeypatch.setattr("pulp.COIN_CMD.actualSolve", actual_solve)


LINE = {"loads": [2.0, 2.0, 2.0, 2.0], "current": [0, 0, 0, 1], "nodes": 3, "budget": 2}


# Each group may stay, and the last one may also go to node 2.
HERE = np.arange(3) == np.array(LINE["current"])[:, None]
HERE[3, 2] = True


@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        pytest.param({}, [0, 0, 0, 0], id="worse"),
        pytest.param({}, [1, 2, 0, 1], id="as even, and more moves"),
        pytest.param({"budget": 0}, [2, 0, 0, 1], id="better, for more than there is"),
        pytest.param({"able": HERE}, [2, 0, 0, 1], id="better, where a group may not be"),
        pytest.param({"pinned": {0: 0, 1: 0, 2: 0, 3: 1}}, [2, 0, 0, 1], id="off its pin"),
        pytest.param({}, None, id="none"),
    ],
)
def test_an_answer_that_is_no_better_is_not_taken(monkeypatch, changed, answer):
    given = LINE | changed
    start = place_groups(**given)
    status = pulp.LpSolutionOptimal if answer else pulp.LpSolutionNoSolutionFound
    problem = PlacementProblem.of(**given)
    answering(monkeypatch, problem, answer and np.array(answer, np.int32), status=status)

    found = place_groups(**given, time_limit=1)

    assert found.assignment.tolist() == start.assignment.tolist()


def test_an_answer_that_is_better_is_taken_and_counted_anew(monkeypatch):
    problem = PlacementProblem.of(**LINE)
    best = np.array([2, 0, 0, 1], np.int32)
    answering(
        monkeypatch, problem, best, said="Result - Optimal solution found\nObjective value: 9"
    )

    found, _ = improve(problem, problem.current, 1.0, "CBC", Aim(problem))

    assert found.tolist() == best.tolist()
    assert place_groups(**LINE, time_limit=1).load_distance == problem.distance(best)


def test_moves_of_an_answer_that_are_not_needed_are_taken_back(monkeypatch):
    problem = PlacementProblem.of([2.0, 2, 2, 2, 0.1], [0, 0, 0, 1, 0], 3, budget=3)
    answering(monkeypatch, problem, np.array([2, 0, 0, 1, 1], np.int32))

    found, _ = improve(problem, problem.current, 1.0, "CBC", Aim(problem, enough=2.0))

    assert found.tolist() == [2, 0, 0, 1, 0]


@BOTH
def test_a_solver_empties_nodes_that_drain_though_the_load_distance_does_not_count_them(solver):
    # Node 2 has 10 and drains. One move can even the others out, or take 5 from it.
    loads, current = [4.0, 5, 7, 8, 1, 2], [2, 2, 0, 0, 2, 1]
    problem = PlacementProblem.of(loads, current, 3, budget=1, draining=[2])
    least = min(map(problem.distance, affordable(problem)))

    found, bound = improve(problem, problem.current, 20.0, solver, Aim(problem))

    assert strain(problem, found) == min(strain(problem, one) for one in affordable(problem))
    assert strain(problem, found) < strain(problem, problem.current)
    assert bound == pytest.approx(least, rel=1e-3)
    assert bound <= least
    assert problem.distance(found) > least


def shares(given, found):
    """What counts of a placement: groups left, what is beyond the limit, what crosses nodes."""
    more = {"traffic", "max_load_distance", "worth", "enough"}
    problem = PlacementProblem.of(**{k: v for k, v in given.items() if k not in more})
    limit = given.get("max_load_distance") or given.get("enough") or 0.0
    beyond = strain(problem, found.assignment)
    beyond = beyond if beyond > limit * (1 + 1e-9) else 0.0
    traffic = given.get("traffic")
    local = 1.0 if traffic is None else traffic.local(found.assignment)
    return problem.left(found.assignment), beyond, -local, found.cost


@settings(max_examples=40)
@given(problems(), st.data())
def test_a_solver_undoes_nothing_that_was_asked_for(given, data):
    if data.draw(st.booleans()):
        traffic = data.draw(traffic_of(len(given["current"])))
        given |= {"traffic": traffic, "max_load_distance": data.draw(st.floats(0.1, 9))}
        given["worth"] = 0.0
    elif data.draw(st.booleans()):
        given["enough"] = data.draw(st.floats(0.1, 9))

    without, with_one = (place_groups(**given, **more) for more in ({}, {"time_limit": 9.0}))
    before, after = shares(given, without), shares(given, with_one)

    assert after[0] <= before[0]  # groups left on nodes that drain
    assert after[1] <= before[1] * (1 + 1e-9)  # beyond the limit
    if after[1] >= before[1] * (1 - 1e-9):
        assert after[2] <= before[2] + 1e-9  # local traffic
        if "enough" in given and after[0] == before[0] and not after[1]:
            assert after[3] <= before[3]  # cost


def test_a_solver_leaves_groups_together_and_moves_no_more_than_is_enough():
    drawn = np.random.default_rng(0)
    for _ in range(3):
        loads, current = drawn.gamma(3.0, 1.0, 10), drawn.integers(0, 3, 10)
        traffic = Traffic(*drawn.integers(0, 10, (2, 6)), drawn.gamma(1.0, 1.0, 6), groups=10)
        asked = {"budget": 5, "traffic": traffic, "max_load_distance": 0.1 * loads.sum()}
        without = place_groups(loads, current, 3, worth=0, **asked)
        with_one = place_groups(loads, current, 3, worth=0, **asked, time_limit=3)
        assert traffic.local(with_one.assignment) >= traffic.local(without.assignment) - 1e-9

    drawn = np.random.default_rng(8)
    loads, current = drawn.gamma(2.0, 1.0, 20), drawn.integers(0, 4, 20)
    assert place_groups(loads, current, 4, budget=20, enough=3.0, time_limit=3).moves == 1


# Solvers that take long, and solvers that fail.


@BOTH
def test_a_solver_is_done_in_time_and_begins_with_what_was_found(solver):
    problem = drifted()
    start = place_groups(problem.loads, problem.current, 20, budget=10)
    program = PlacementProgram(problem)
    program.begin_with(start.assignment)

    begun = time.monotonic()
    found, proven = program.solve(1.0, solver, warm=True)
    taken = time.monotonic() - begun

    # Within a second on two busy cores neither comes as far from nothing.
    assert problem.distance(found) <= start.load_distance * (1 + 1e-6)
    assert proven <= start.load_distance
    assert taken < 30.0  # without a limit it takes hours; the machine may be busy


def pretending(tmp_path, monkeypatch, script):
    """Put a script in the place of CBC."""
    path = tmp_path / "cbc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr("cbcbox.cbc_bin_path", lambda: str(path))


def test_cbc_is_told_how_long_it_may_take_where_to_begin_and_that_no_gap_will_do(
    tmp_path, monkeypatch
):
    told = tmp_path / "told"
    pretending(tmp_path, monkeypatch, f'echo "$@" > {told}; exit 1')

    with pytest.raises(SolverError):
        place_groups([3.0, 1, 1], [0, 0, 0], 2, budget=2, time_limit=7.5)

    words = told.read_text()
    for wanted in ("-sec 7.5", "-mips", "-ratio 0.0", "-allow 0.0", "-threads 1"):
        assert wanted in words


@pytest.mark.parametrize("script", ["exit 1", "exit 0", 'echo "no" > /dev/null; kill -9 $$'])
def test_a_solver_that_fails_is_named_in_one_line_of_ours(tmp_path, monkeypatch, script):
    pretending(tmp_path, monkeypatch, script)

    with pytest.raises(
        SolverError, match=r"the solver CBC failed: .*leave the time limit out"
    ) as e:
        place_groups([3.0, 1, 1], [0, 0, 0], 2, budget=2, time_limit=2)
    assert "\n" not in str(e.value)


def test_highs_is_told_how_long_it_may_take_and_that_no_gap_will_do(monkeypatch):
    told = {}

    def call(command, model):
        names = ("time_limit", "mip_rel_gap", "mip_abs_gap", "threads")
        told.update({name: model.solverModel.getOptionValue(name)[1] for name in names})
        model.solverModel.run()

    monkeypatch.setattr("pulp.HiGHS.callSolver", call)
    PlacementProgram(PlacementProblem.of(**TWO)).solve(7.5, "HiGHS")

    assert {"time_limit": 7.5, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "threads": 1} == told


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PuLP's open log
def test_a_file_that_is_no_program_is_named(tmp_path, monkeypatch):
    pretending(tmp_path, monkeypatch, "")
    (tmp_path / "cbc").write_bytes(bytes(9))

    with pytest.raises(SolverError, match=r"the solver CBC failed: .*Exec format"):
        place_groups([3.0, 1, 1], [0, 0, 0], 2, budget=2, time_limit=2)


def test_a_solver_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("cbcbox.cbc_bin_path", lambda: "/nonexistent/cbc")
    with pytest.raises(SolverError, match=r"the solver CBC failed: .*cannot execute /nonexistent"):
        place_groups([3.0, 1, 1], [0, 0, 0], 2, budget=2, time_limit=2)

    monkeypatch.setitem(sys.modules, "cbcbox", None)
    with pytest.raises(MissingPackageError, match=r"solver='CBC' needs cbcbox.*pip install"):
        place_groups([3.0, 1, 1], [0, 0, 0], 2, budget=2, time_limit=2)


def test_without_a_time_limit_no_solver_has_to_be_there():
    code = (
        "import sys; sys.modules.update(pulp=None, cbcbox=None, highspy=None)\n"
        "from grouping.placement import place_groups\n"
        "print(place_groups([3.0, 1, 1], [0, 0, 0], 2, budget=2).load_distance)"
    )
    tried = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert tried.stdout.strip() == "0.5", tried.stderr


def test_the_bound_without_a_solver_is_kept_where_a_solver_proves_less(monkeypatch):
    problem = PlacementProblem.of([4.0, 4, 4, 0, 0, 0], [0, 0, 0, 1, 1, 1], 2, budget=1)
    answering(monkeypatch, problem, problem.current, said="Lower bound: 0.1")

    found = place_groups([4.0, 4, 4, 0, 0, 0], [0, 0, 0, 1, 1, 1], 2, budget=1, time_limit=1)

    assert least_distance(problem) <= found.bound <= 2.0
    assert found.bound == pytest.approx(2.0, rel=1e-6)
