"""Nodes that came under another name than the plan that added them gave.

A strategy may go on using the name it gave; here it is translated into the name of the host.
"""

from collections.abc import Mapping
from dataclasses import replace

from optimizers.plan import Plan


def renamed(plan: Plan, stand_ins: Mapping[str, str]) -> Plan:
    """Return a plan that means nodes that are there where it speaks of those they stand in for.

    >>> from optimizers.cluster import Node
    >>> from optimizers.deployment import Deployment
    >>> plan = Plan(add=(Node("big"),), placement={"count": Deployment(("east", "big"))})
    >>> renamed(plan, {"big": "i-0a7c"})
    Plan(placement={'count': Deployment(nodes=('east', 'i-0a7c'), groups=())})

    Args:
        plan: the plan, whole or only what is to change.
        stand_ins: for nodes that plans have added, the names that they came under.
    """
    # One that is drained by the name it has is left for good, and the other name is free.
    names = {name: other for name, other in stand_ins.items() if other not in plan.drain}
    used = {name for home in plan.placement.values() for name in home.nodes}
    used.update(plan.drain, (node.name for node in plan.add))
    if not names.keys() & used:
        return plan
    placement = {
        operator: replace(home, nodes=tuple(names.get(name, name) for name in home.nodes))
        for operator, home in plan.placement.items()
    }
    return replace(
        plan,
        add=tuple(node for node in plan.add if node.name not in names),
        drain=tuple(names.get(name, name) for name in plan.drain),
        placement=placement,
    )
