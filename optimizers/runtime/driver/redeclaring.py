"""A job that is started again with another parallelism in its code than before."""

import logging
from collections.abc import Mapping

from optimizers.cluster import Cluster
from optimizers.control.fitting import fitted
from optimizers.errors import PlanError
from optimizers.layout import completed
from optimizers.plan import Plan
from optimizers.runtime.log.checkpoint import SavedPlan
from optimizers.runtime.work import check_change
from optimizers.topology import Topology

_LOG = logging.getLogger(__name__)


def redeclared(
    before: SavedPlan,
    declared: Mapping[str, int],
    topology: Topology,
    cluster: Cluster,
    running: Topology | None,
) -> Plan:
    """Return the plan of an earlier driver with the parallelism that the job now declares.

    Only operators whose declared parallelism has changed get another one: what an optimizer has
    decided for the others stays.

    Args:
        before: the plan, with the parallelism that was declared then.
        declared: the parallelism of each operator that the job declares now.
        topology: the job as declared.
        cluster: the machines.
        running: the job as it last ran, with state; None if no batch was committed.

    Raises:
        PlanError: the job cannot have these numbers.
    """
    changed = {
        name: number for name, number in declared.items() if before.declared.get(name) != number
    }
    plan = completed(fitted(before.plan, cluster).plan, topology, cluster)
    plan = plan.amended(Plan(parallelism=changed, notes=plan.notes), cluster)
    try:
        plan.check(topology)
        if running is not None:
            check_change(running, topology.under(plan))
    except PlanError as error:
        raise PlanError(
            f"the job declares other numbers of instances than before: {error}"
        ) from error
    changes = (f"{name}: {before.declared.get(name)} -> {changed[name]}" for name in changed)
    _LOG.info("the job declares other numbers of instances: %s", ", ".join(changes))
    return plan
