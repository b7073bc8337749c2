"""Which node holds which key group: balanced, under a budget for what may move."""

from grouping.placement.bounds import least_distance
from grouping.placement.place import GroupPlacement, place_groups
from grouping.placement.problem import PlacementProblem
from grouping.placement.traffic import Traffic

__all__ = ["GroupPlacement", "PlacementProblem", "Traffic", "least_distance", "place_groups"]
