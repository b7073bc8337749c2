"""Errors of planning, under the root that all errors stand under."""

from sketches.errors import PenstockError


class DataflowError(PenstockError, ValueError):
    """Operators and edges are not a dataflow that can be planned."""


class OverloadError(PenstockError, ValueError):
    """No plan carries this load within these limits."""


class FitError(PenstockError, ValueError):
    """Measurements do not say what a constant of a cost model is."""


class OutsideRangeError(PenstockError, ValueError):
    """A cost model is asked about what is outside the range it was fitted on."""
