"""Which node holds which key group: balanced, under a budget for what may move."""

from grouping.placement.bounds import least_distance
from grouping.placement.place import GroupPlacement, place_groups
from grouping.placement.problem import PlacementProblem

__all__ = ["GroupPlacement", "PlacementProblem", "least_distance", "place_groups"]
