"""Errors of routing, under the root of all errors."""

from sketches.errors import PenstockError


class PartitionError(PenstockError, ValueError):
    """Keys cannot be divided among instances as asked."""


class PlacementError(PenstockError, ValueError):
    """Key groups cannot be placed on nodes as asked."""


class SolverError(PenstockError, RuntimeError):
    """A solver that was asked for a better placement failed."""
