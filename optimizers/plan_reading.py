"""Reading the parts of a plan's document that take more than a field: routing and scheduling."""

from typing import Any

from grouping.groupings import Grouping, grouping_from_dict
from optimizers.documents import Record
from optimizers.errors import PlanError
from optimizers.operators import EdgeName


def routing_of(record: Record) -> tuple[dict[str, Grouping], tuple[str, ...]]:
    """Return the routing of a plan, and the operators that adopt keys."""
    adopt = list(record.strings("adopt"))

    def build(name: str, value: Any) -> Grouping:
        if isinstance(value, dict) and value.get("adopts") is True:  # the first form
            adopt.append(name)
        return grouping_from_dict(value)

    values = record.mapping("routing", lambda value, _: value)
    return {name: build(name, value) for name, value in values.items()}, tuple(adopt)


def scheduling_of(record: Record) -> dict[EdgeName, Grouping]:
    """Return how the tuples of edges are spread.

    Raises:
        PlanError: an edge is named twice.
    """
    found: dict[EdgeName, Grouping] = {}
    for edge, grouping in record.each("scheduling", _entry):
        if edge in found:
            raise PlanError(f"edge {edge!r} is scheduled twice; keep one")
        found[edge] = grouping
    return found


def _entry(record: Record) -> tuple[EdgeName, Grouping]:
    edge = record.take("source", str), record.take("target", str)
    return edge, grouping_from_dict(record.take("grouping", dict))
