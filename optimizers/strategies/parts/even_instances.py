"""Key groups dealt evenly among the instances of an operator that are on one node."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from grouping.placement.place import place_groups
from optimizers.deployment import Deployment
from optimizers.strategies.parts.group_layout import GroupLayout
from sketches.arrays import Floats, Integers, Parts


@dataclass(frozen=True)
class Evened:
    """Deployments whose instances are even on each node.

    Attributes:
        placed: the deployments, with those that were decided before.
        cost: what it costs to move groups from one instance to another on the same node.
    """

    placed: Mapping[str, Deployment]
    cost: float = 0.0


@dataclass(frozen=True)
class InstanceBalance:
    """When instances of an operator on one node are too uneven, and what it may cost to mend that.

    A stage lasts as long as its busiest instance, on whatever node that is.

    Attributes:
        groups: the key groups, as they are laid out.
        loads: the load of each group, in one row.
        variances: by how much each would vary by chance.
        costs: what it costs to move each.
        mean: the mean load of a node, of the heaviest stage.
        limit: by how much more than on average the instances on a node the busiest may have to do,
            as a share of what each would have of the mean.
    """

    groups: GroupLayout
    loads: Floats
    variances: Floats
    costs: Floats
    mean: float
    limit: float

    def evened(self, placed: Mapping[str, Deployment], budget: float) -> Evened:
        """Return deployments with even instances, as far as a budget suffices.

        Args:
            placed: the deployments that were decided; of other operators those in force hold.
            budget: what is left for moving groups.
        """
        found, cost = dict(placed), 0.0
        crowds = [
            (crowd, self._excess(crowd), name)
            for name in self.groups.spans
            for crowd in self._crowds(name, placed)
        ]
        uneven = [each for each in crowds if each[1] > self.limit + each[0].luck]
        for crowd, excess, name in sorted(uneven, key=lambda each: -each[1]):
            answer = place_groups(
                crowd.loads,
                crowd.at,
                len(crowd.instances),
                budget=max(0.0, budget - cost),
                migration_cost=crowd.costs,
                enough=self.limit / 2,
            )
            if self._excess(crowd, answer.assignment) >= excess - crowd.luck:
                continue
            home = found.get(name, self.groups.layout.homes[name])
            owners = np.array(home.groups)
            owners[crowd.members] = crowd.instances[answer.assignment]
            found[name] = Deployment(home.nodes, tuple(owners.tolist()))
            cost += answer.cost
        return Evened(found, cost)

    def _excess(self, crowd: "_Crowd", at: Parts | None = None) -> float:
        """Return how much more than on average the busiest instance on a node has to do."""
        held = np.bincount(crowd.at if at is None else at, crowd.loads, len(crowd.instances))
        return float(held.max() - held.mean())

    def _crowds(self, name: str, placed: Mapping[str, Deployment]) -> list["_Crowd"]:
        """Return the instances of an operator by node, of nodes that stay and have several."""
        before, span = self.groups.layout.homes[name], self.groups.spans[name]
        home = placed.get(name, before)
        owners, nodes = np.array(home.groups), np.array([self.groups.nodes[n] for n in home.nodes])
        # What moves anyway may as well go to any other instance on its new node.
        moves = [
            new != old or home.nodes[new] != before.nodes[old]
            for new, old in zip(home.groups, before.groups, strict=True)
        ]
        costs = np.where(moves, 0.0, self.costs[span])
        found = []
        for node, count in sorted(Counter(nodes.tolist()).items()):
            members = np.flatnonzero(nodes[owners] == node)
            if count == 1 or node in self.groups.draining or not len(members):
                continue
            instances = np.flatnonzero(nodes == node)
            unit = self.mean * float(self.groups.capacities[node]) / count
            at = np.searchsorted(instances, owners[members]).astype(np.int32)
            chance = np.bincount(at, self.variances[span][members], count)
            luck = 2.0 * float(np.sqrt(chance.max())) / unit
            loads = self.loads[span][members] / unit
            found.append(_Crowd(instances, members, at, loads, costs[members], luck))
        return found


@dataclass(frozen=True)
class _Crowd:
    """The instances of an operator on one node, with their key groups.

    Attributes:
        instances: the numbers of the instances.
        members: the groups that they have.
        at: the place of each group's instance among these.
        loads: the load of each group, in what an instance has on average.
        costs: what it costs to move each.
        luck: by how much an instance may seem to be busier by chance: two standard deviations.
    """

    instances: Integers
    members: Integers
    at: Parts
    loads: Floats
    costs: Floats
    luck: float
