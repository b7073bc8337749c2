"""One edge, as events happen to its tuples."""

from collections import deque
from typing import Any

import numpy as np

from batching.buffers import FlushRules
from grouping.owners import KeyOwners
from grouping.routers import Router
from optimizers.simulation.edges import EdgeRun
from optimizers.simulation.observation import EdgeFlow
from optimizers.simulation.queues.conversation import Conversation

_AHEAD = 256  # choices that need no key are made this many at once


class EventEdge:
    """One edge: whom its tuples are sent to, one by one.

    Args:
        edge_run: the edge.
        rank: of the operator that sends, in the order of the job.

    Attributes:
        rules: when a batch is full.
        conversation: the conversation, where those who send listen.
        codes: the code of the key of each tuple of the run, for a conversation.
        sent: the tuples that were sent in this epoch, each with both instances.
        flow: how many these were.
        starts: the number of the node of each instance that sends.
        ends: the same of those that are sent to.
    """

    def __init__(self, edge_run: EdgeRun, rank: int) -> None:
        self.edge_run = edge_run
        self.rank = rank
        self.rules = FlushRules(1)
        self.conversation: Conversation | None = None
        self.codes: list[int] = []
        self.sent: list[tuple[int, int, int]] = []
        self.flow = EdgeFlow()
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.sizes: list[float] = edge_run.tuples.sizes.tolist()
        self._ownership: KeyOwners | None = None
        self._owners: list[int] | None = None
        self._ahead: dict[int, tuple[Router, deque[int]]] = {}
        self._made_for: Any = None

    def locate(self) -> None:
        """Learn where instances are by now."""
        self.starts = self.edge_run.source.nodes.tolist()
        self.ends = self.edge_run.target.nodes.tolist()

    def under(self, rules: FlushRules, conversation: Conversation | None) -> bool:
        """Go by what the edge says from now on, and return whether open batches must leave."""
        edge_run = self.edge_run
        made_for = rules, edge_run.grouping, edge_run.instances, conversation
        changed = self._made_for not in (None, made_for)
        self._made_for = made_for
        self.rules, self.conversation = rules, conversation
        if conversation is not None and not self.codes:
            self.codes = edge_run.codes().tolist()
        if edge_run.ownership != self._ownership:
            self._ownership = edge_run.ownership
            owners = edge_run.owners()
            self._owners = None if owners is None else owners.tolist()
        return changed

    def choose(self, sender: int, row: int) -> int:
        """Return the instance that the next tuple of a sender is sent to, as routers say."""
        if self._owners is not None:
            return self._owners[row]
        edge_run = self.edge_run
        if edge_run.needs_key:
            return int(edge_run.route_from(sender, np.array([row]))[0])
        router = edge_run.router(sender)
        known = self._ahead.get(sender)
        if known is None or known[0] is not router:
            known = self._ahead[sender] = router, deque()
        ahead = known[1]
        if not ahead:
            ahead.extend(router.route(_AHEAD).tolist())
        return ahead.popleft()

    def count(self, sender: int, instance: int, row: int) -> None:
        """Count a tuple that is sent."""
        size = self.sizes[row]
        self.sent.append((row, sender, instance))
        self.flow.tuples += 1
        self.flow.bytes += size
        if self.starts[sender] == self.ends[instance]:
            self.flow.local += 1
            self.flow.local_bytes += size
