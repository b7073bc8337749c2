"""Provisioning: acquires the nodes that plans want, and gives back empty ones.

A plan says how many nodes it wants, or names those that are to come and go. Machines come from a
`Provisioner`: Spark (`optimizers.spark.executors`), the simulation, or a few lines of your own.
Without one a plan only advises: its wish is logged, and reported as a decision.

Machines come late, under names that are not known before, or not at all. So a request is made once,
and remembered until the machines are there. A node that comes under another name than a plan adds
it by stands in for that one. A request that is no longer wanted before they come is cancelled.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from optimizers.cluster import Cluster
from optimizers.control.asking import message_of
from optimizers.control.decision import Decision
from optimizers.error_boundary import place_of
from optimizers.layout import Layout
from optimizers.plan import Note, Plan
from sketches.values import FrozenMap

_LOG = logging.getLogger(__name__)

PATIENCE = 300.0
"""Seconds after which nodes that were asked for, or given back, are late."""

_BY = "machines"  # the author, in notes
_ABOUT = "nodes"


@runtime_checkable
class Provisioner(Protocol):
    """Acquires nodes and gives them back: a cloud, a cluster manager, a script of yours.

    Its methods ask and return without waiting; they are called between two batches, from the job's
    own thread. Their errors are reported as refused decisions, and the job goes on. A provisioner
    that can cancel a request has a third method, see `Canceller`.
    """

    def acquire(self, count: int, total: int, /) -> None:
        """Ask for nodes, which may come later, one by one, under any names.

        Args:
            count: how many more are wanted, beyond those that are there or were asked for before.
            total: how many there are to be in all, including those that drain until they are given
                back.
        """

    def release(self, nodes: Sequence[str], /) -> None:
        """Give back these nodes, on which nothing is left."""


@runtime_checkable
class Canceller(Protocol):
    """A provisioner that can cancel a request."""

    def cancel(self, count: int, total: int, /) -> None:
        """Cancel the request for nodes that have not come and are not wanted any more.

        Args:
            count: how many are not to come.
            total: how many there are to be in all, as of `Provisioner.acquire`.
        """


class Provisioning:
    """The requests to a provisioner, and their outcomes.

    Args:
        provisioner: acquires nodes and gives them back; None where plans only advise.
        patience: seconds after which a request is late, which is reported once, and after which a
            request that failed is made again.
    """

    def __init__(self, provisioner: Provisioner | None, patience: float = PATIENCE) -> None:
        self._provisioner = provisioner
        self._patience = patience
        self._there: frozenset[str] = frozenset()
        self._coming = 0  # nodes that were asked for, and are not there
        self._unwanted = 0  # nodes that may come, and are to be cancelled
        self._instead: dict[str, str] = {}  # names of the plan, and the names that came
        self._going: dict[str, float] = {}  # nodes that were given back and are still there; when
        self._asked = 0.0  # when nodes were last asked for
        self._late = False  # whether it was reported that they are late
        self._reported: set[str] = set()  # nodes that were reported as still there
        self._not_before: dict[str, float] = {}  # when a failed request is made again

    def settle(
        self, plan: Plan, cluster: Cluster, kept: Collection[str], after: int, now: float
    ) -> list[Decision]:
        """Ask for nodes that a plan wants, once; return what there is to report.

        Args:
            plan: the plan in force.
            cluster: the machines that are there, without what the plan adds.
            kept: the names of nodes that have, or will have, something on them.
            after: the batch that is done.
            now: the time in seconds.
        """
        self.meet(plan, cluster)
        there = {node.name for node in cluster.nodes}
        drained = there & {*plan.drain, *cluster.draining}
        # 1. What is wanted and not there.
        working = len(there) - len(drained)
        lacking = len({node.name for node in plan.add} - there - self._instead.keys())
        if plan.nodes is not None:
            lacking = max(0, plan.nodes - working)
        asked = self._coming + self._unwanted
        self._coming = min(asked, lacking)
        self._unwanted = asked - self._coming
        # 2. Ask, and report.
        free = [name for name in sorted(drained - self._going.keys()) if name not in kept]
        decisions = [
            self._cancelled(after, now),
            self._acquired(lacking, working, after, now),
            self._released(free, after, now),
            self._overdue(after, now),
        ]
        return [decision for decision in decisions if decision is not None]

    def meet(self, plan: Plan, cluster: Cluster) -> Mapping[str, str]:
        """Note which nodes have come and gone; return the names of stand-ins by the plan's names.

        Stand-ins are nodes that were acquired for a plan that adds them by another name.

        Args:
            plan: the plan in force.
            cluster: the machines that are there, without what the plan adds.
        """
        there = {node.name for node in cluster.nodes}
        drained = there & {*plan.drain, *cluster.draining}
        came = there - self._there if self._there else frozenset()
        added = {node.name for node in plan.add}
        room = max(0, self._coming - len(came & added))
        self._stand_in(sorted(added - there), sorted(came - added)[:room], there - drained, there)
        self._unwanted = max(0, self._unwanted - max(0, len(came) - self._coming))
        self._coming = max(0, self._coming - len(came))
        self._there = frozenset(there)
        self._going = {name: since for name, since in self._going.items() if name in drained}
        self._reported &= {*self._going}
        return {} if self._provisioner is None else dict(self._instead)

    def _stand_in(
        self, promised: list[str], came: list[str], staying: set[str], there: set[str]
    ) -> None:
        """Match nodes that came under other names with those that were asked for by name.

        Otherwise they would be asked for again after each batch. If one of them goes, it is.
        """
        self._instead = {
            name: other
            for name, other in self._instead.items()
            if name not in there and other in staying
        }
        open_ = [name for name in promised if name not in self._instead]
        self._instead.update(zip(open_, came, strict=False))

    def _cancelled(self, after: int, now: float) -> Decision | None:
        """Cancel the request for nodes that are not wanted any more, if there are any."""
        count, cancel = self._unwanted, isinstance(self._provisioner, Canceller)
        if not count or now < self._not_before.get("cancel", now):
            return None
        if self._provisioner is None:
            text = f"{_nodes(count)} need not be acquired any more"
        elif not cancel:
            text = (
                f"{_nodes(count)} asked for {_are(count)} no longer wanted but may still come: "
                f"{type(self._provisioner).__name__} has no method cancel(count, total)"
            )
        else:
            text = f"the request for {_nodes(count)} was cancelled"
            total = len(self._there) - len(self._going) + self._coming
            refused = self._refusal("cancel", (count, total), now)
            if refused:
                return _decision(
                    after, f"the request for {_nodes(count)} could be cancelled", {}, refused
                )
        self._unwanted = 0
        return _decision(after, text, done=cancel)

    def _acquired(self, lacking: int, working: int, after: int, now: float) -> Decision | None:
        """Ask for missing nodes that were not asked for, if there are any."""
        count = lacking - self._coming
        if count <= 0 or now < self._not_before.get("acquire", now):
            return None
        figures = {"there": working, "wanted": working + lacking}
        if self._provisioner is None:
            text = f"{_nodes(count)} more should be acquired; nothing here does that"
        else:
            text = f"{_nodes(count)} more {_were(count)} asked for"
            total = len(self._there) - len(self._going) + self._coming + count
            refused = self._refusal("acquire", (count, total), now)
            if refused:
                return _decision(after, f"{_nodes(count)} lack", figures, refused)
        self._coming, self._asked, self._late = self._coming + count, now, False
        return _decision(after, text, figures, done=self._provisioner is not None)

    def _released(self, free: list[str], after: int, now: float) -> Decision | None:
        """Give back empty nodes, if there are any."""
        if not free or now < self._not_before.get("release", now):
            return None
        names = ", ".join(free)
        if self._provisioner is None:
            text = f"nothing is left on {names}: give back what you do not need"
        else:
            text = f"nothing was left on {names}, which {_were(len(free))} given back"
            refused = self._refusal("release", (tuple(free),), now)
            if refused:
                return _decision(after, f"{names} could be given back", {}, refused)
        self._going.update(dict.fromkeys(free, now))
        return _decision(after, text, done=self._provisioner is not None)

    def _overdue(self, after: int, now: float) -> Decision | None:
        """Report once the nodes that should have come, or gone, long ago."""
        if self._provisioner is None:
            return None
        late = []
        waited = now - self._asked
        if self._coming and not self._late and waited >= self._patience:
            self._late = True
            late.append(f"{_nodes(self._coming)} asked for {waited:.0f} s ago did not come")
        stuck = [name for name, since in self._going.items() if now - since >= self._patience]
        stuck = [name for name in stuck if name not in self._reported]
        self._reported.update(stuck)
        if stuck:
            late.append(f"{', '.join(stuck)} given back and still there")
        if not late:
            return None
        text = f"more than {self._patience:g} s late, and not asked for again"
        return _decision(after, text, {}, "; ".join(late))

    def _refusal(self, call: str, arguments: tuple[Any, ...], now: float) -> str:
        """Call the provisioner, and return its error in one line; empty if there was none."""
        self._not_before.pop(call, None)
        try:
            getattr(self._provisioner, call)(*arguments)
        except Exception as error:  # noqa: BLE001  # a cloud may raise anything
            self._not_before[call] = now + self._patience
            _LOG.debug("a provisioner has raised", exc_info=error)
            place = place_of(error)
            where = f", at {place}" if place else ""
            called = f"{type(self._provisioner).__name__}.{call}"
            return f"{called} raised {type(error).__name__}: {message_of(error)}{where}"
        return ""


def kept_by(plan: Plan, cluster: Cluster, layouts: Iterable[Layout]) -> set[str]:
    """Return the nodes that are not to be given back yet.

    Args:
        plan: the next plan.
        cluster: the machines.
        layouts: the present layout of the job, and the next one.
    """
    drained = {*plan.drain, *cluster.draining}
    homes = (home for layout in layouts for home in layout.homes.values())
    used = {name for home in homes for name in home.nodes}
    return used | {node.name for node in cluster.nodes if node.name not in drained}


def _decision(
    after: int,
    text: str,
    figures: Mapping[str, float] = FrozenMap(),  # frozen
    refused: str = "",
    *,
    done: bool = False,
) -> Decision:
    note = Note(_BY, _ABOUT, text, figures)
    decision = Decision(after, Plan(notes=(note,)), refused, applied=done, provisions=True)
    _LOG.log(logging.WARNING if refused or not done else logging.INFO, "%s", decision)
    return decision


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
