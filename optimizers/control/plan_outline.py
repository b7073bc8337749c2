"""Plans in outline: decisions with a few words instead of each table.

A job runs for months and remembers its last thousand decisions. A table of 100,000 keys takes some
18 MB, so only the last decision keeps its tables.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from grouping.groupings import GROUPINGS, Grouping, grouping_to_dict
from grouping.key_table import KeyTable
from optimizers.cluster import Node
from optimizers.deployment import Deployment
from optimizers.operators import EdgeName
from optimizers.plan import Note, Plan
from sketches.values import FrozenMap

_SHOWN = 200  # characters of a text
_DIGEST = 8  # bytes: enough to tell a thousand tables apart


@dataclass(frozen=True, slots=True)
class Outline:
    """The outline of a grouping or a deployment.

    >>> from grouping.routing_table import RoutingTable
    >>> table = RoutingTable(["Asia", "Europe"], [0, 1], instances=2)
    >>> outline_of(table).text
    'RoutingTable(2 str keys, instances=2)'
    >>> outline_of(table) == outline_of(table.with_keys(["Africa"], [0]))
    False

    Attributes:
        text: how it reads, shortened.
        digest: a fingerprint of its content; equal content, equal fingerprint.
    """

    text: str
    digest: str

    def __str__(self) -> str:
        return f"{self.text}, {self.digest}"


_NOTHING: Mapping[Any, Outline] = FrozenMap()  # one for all: a thousand outlines are kept


@dataclass(frozen=True, slots=True)
class PlanOutline:
    """A plan with tables, deployments and schedules in outline; the rest as in `Plan`.

    Attributes:
        parallelism: how many instances an operator has.
        admit: how many tuples a source lets in with a batch.
        period: how many seconds pass at least from the beginning of a batch to that of the next.
        batch: how many tuples at most an operator sends to an instance at once.
        routing: in outline, the owners of keys.
        placement: in outline, where key groups and instances live.
        scheduling: in outline, how tuples of an edge are spread.
        adopt: operators whose unknown keys get an owner beside the keys they come with.
        add: nodes to be added.
        drain: nodes to be emptied.
        nodes: how many are wanted.
        notes: why.
    """

    parallelism: Mapping[str, int]
    admit: Mapping[str, int]
    period: float | None
    batch: Mapping[str, int]
    routing: Mapping[str, Outline]
    placement: Mapping[str, Outline]
    scheduling: Mapping[EdgeName, Outline]
    adopt: tuple[str, ...]
    add: tuple[Node, ...]
    drain: tuple[str, ...]
    nodes: int | None
    notes: tuple[Note, ...]

    @classmethod
    def of(cls, plan: Plan) -> "PlanOutline":
        """Return the outline of a plan."""
        parts: dict[str, Any] = {field.name: getattr(plan, field.name) for field in fields(plan)}
        for part in ("routing", "placement", "scheduling"):
            named = {name: outline_of(value) for name, value in parts[part].items()}
            parts[part] = FrozenMap(named) if named else _NOTHING
        return cls(**parts)

    def __bool__(self) -> bool:
        """Whether anything was decided."""
        return self.period is not None or any(
            getattr(self, field.name) for field in fields(self) if field.name != "notes"
        )


def outline_of(value: Grouping | Deployment) -> Outline:
    """Return a grouping or a deployment in outline."""
    text = repr(value)
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in _content(value, text):
        digest.update(part)
    return Outline(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...", digest.hexdigest())


def _content(value: Grouping | Deployment, text: str) -> tuple[bytes, ...]:
    """Return its content as bytes that are the same in every process."""
    if isinstance(value, KeyTable):
        return text.encode(), value.codes.tobytes(), value.parts.tobytes()
    if isinstance(value, Deployment):
        return (json.dumps(value.to_dict()).encode(),)
    if type(value) in GROUPINGS:
        return (json.dumps(grouping_to_dict(value)).encode(),)
    return (text.encode(),)  # from another package, maybe without JSON
