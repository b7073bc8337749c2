"""Weighing: whether a job can be carried out as an optimizer decided, before anything is done."""

import json
from collections.abc import Mapping

from grouping.groupings import GROUPINGS, Grouping, grouping_from_dict, grouping_to_dict
from optimizers.cluster import Cluster
from optimizers.errors import InvalidKeyError, PlanError
from optimizers.layout import Layout
from optimizers.plan import Plan
from optimizers.runtime.state.schema import Columns
from optimizers.runtime.state.table import KEY
from optimizers.runtime.task.key_reader import check_kind
from optimizers.runtime.work import check_change
from optimizers.topology import Topology


def check_decision(
    topology: Topology,
    cluster: Cluster,
    current: Plan,
    decision: Plan,
    columns: Mapping[str, Columns],
) -> Plan:
    """Return the plan that is in force once a decision is applied, or say why it cannot be.

    All is tried that can be known without the tuples: once a plan is saved, each driver to come
    goes by it.

    Args:
        topology: the job as declared.
        cluster: the machines.
        current: the plan in force.
        decision: what is to change.
        columns: the columns of state, as far as they are known.

    Raises:
        PlanError: it cannot be carried out.
        UnknownNameError: it names what is not there.
        Exception: a grouping of somebody else's fails, in whatever way.
    """
    amended = current.amended(decision, cluster)
    amended.check(topology, cluster)
    later = topology.under(amended)
    check_change(topology.under(current), later)
    _check_kinds(later, columns)
    for grouping in (*decision.routing.values(), *decision.scheduling.values()):
        _check_travels(grouping)
    layout = Layout.of(topology, cluster, amended)
    for edge in later.edges:
        layout.owners_on(edge)
        later.grouping(*edge.name).router(later.operator(edge.target).parallelism)
    return amended


def _check_kinds(topology: Topology, columns: Mapping[str, Columns]) -> None:
    """Refuse tables of keys that are of another kind than those that state is kept of."""
    for name, kept in columns.items():
        types = [kind for column, kind in kept if column.startswith(KEY)]
        grouping = topology.grouping(*topology.inputs(name)[0].name)
        try:
            check_kind(grouping, topology.operator(name).parallelism, types)
        except InvalidKeyError as error:
            raise PlanError(
                f"routing[{name!r}]: operator {name!r} keeps state by keys of type "
                f"{', '.join(types)}, and {error}"
            ) from error


def _check_travels(grouping: Grouping) -> None:
    """Refuse a grouping of somebody else's that the next driver could not read from the plan."""
    if type(grouping) in GROUPINGS:
        return
    back = grouping_from_dict(json.loads(json.dumps(grouping_to_dict(grouping))))
    if back != grouping:
        raise PlanError(
            f"{grouping!r} is {back!r} when it was written as JSON and read; a plan is kept as "
            "JSON, so let its to_dict and from_dict fit"
        )
