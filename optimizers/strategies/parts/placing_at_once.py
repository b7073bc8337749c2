"""Placing the key groups of all operators at once, by the sum of their loads, in one step.

So do the methods of other papers that `Albic` is compared with, its own as printed among them.
"""

from collections.abc import Callable

from grouping.placement.problem import ROUNDING, Nodes, PlacementProblem
from grouping.placement.traffic import Traffic
from optimizers.control.question import Question
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.strategies.parts.group_layout import GroupLayout, hindrance
from optimizers.strategies.parts.group_loads import GroupLoads
from optimizers.strategies.parts.migration_budget import MigrationBudget


def placed_at_once(
    optimizer: Optimizer,
    asked: Question,
    place: Callable[[PlacementProblem, GroupLayout], Nodes],
    *,
    budget: str | MigrationBudget,
    unless_within: float | None = None,
) -> Plan:
    """Return the nodes of the key groups of all operators whose loads were seen.

    Args:
        optimizer: the strategy that asks, whose notes these are.
        asked: the job, the machines, what was seen, and the plan in force.
        place: returns the node of each group.
        budget: what the moves may cost.
        unless_within: how far a node may be from the mean, as a share of it, before anything is
            done; None to do what is better each time.
    """
    topology, cluster, statistics = asked.topology, asked.cluster, asked.statistics
    reason = hindrance(topology)
    if reason:
        return optimizer.idle(reason)
    layout = Layout.of(topology, cluster, asked.current)
    loads = GroupLoads.of(layout, cluster, statistics, resource=None, lasting=0.0)
    if loads is None or loads.lacking:
        return Plan()
    groups = GroupLayout(layout, cluster, loads.names, loads.resource)
    budget = MigrationBudget.of(budget)
    load = groups.row(loads.loads)
    if not load.any():
        return Plan()
    costs = budget.costs(groups.row(loads.state), statistics.past)
    problem = groups.problem(load, budget=budget.amount, costs=costs)
    before = problem.distance(problem.current)
    is_even = unless_within is not None and before <= unless_within
    if is_even and not problem.left(problem.current):
        return Plan(notes=(optimizer.note("the job", "even enough", {"distance then": before}),))
    found = place(problem, groups)
    said = f"every placement that is better is taken, by {loads.resource}"
    if not _better(problem, groups.traffic(statistics), found):
        found, said = (
            problem.current,
            f"left as it is: nothing better was found, by {loads.resource}",
        )
    figures = {
        "distance then": before,
        "distance now": problem.distance(found),
        "groups": int((found != problem.current).sum()),
        "cost": problem.cost(found),
    }
    note = optimizer.note("the job", said, figures)
    return Plan(placement=groups.placed(found, load), notes=(note,))


def _better(problem: PlacementProblem, traffic: Traffic, found: Nodes) -> bool:
    """Return whether a placement is more even than the present, more local, or leaves more drains.

    By more than rounding: the loads of a stream that stays the same are never the same to the last
    digit, and methods that sort by them would move groups for ever.
    """
    now = problem.current
    gained = problem.distance(now) - problem.distance(found)
    return (
        gained > ROUNDING * float(problem.mean.max())
        or traffic.local(found) - traffic.local(now) > ROUNDING
        or problem.left(found) < problem.left(now)
    )
