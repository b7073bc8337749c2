"""Errors of routing, under the root that all errors stand under."""

from sketches.errors import PenstockError


class PartitionError(PenstockError, ValueError):
    """Keys cannot be divided among instances as asked."""
