"""Comparing optimizers: the same job, on the same input, with results that are checked."""

from optimizers.comparing.compare import ComparedBatch, Rows, compare
from optimizers.comparing.comparison import Comparison
from optimizers.comparing.outcome import Difference, Outcome
from optimizers.control.decision import DecisionFacts
from optimizers.control.run_summary import RunSummary

__all__ = [
    "ComparedBatch",
    "Comparison",
    "DecisionFacts",
    "Difference",
    "Outcome",
    "Rows",
    "RunSummary",
    "compare",
]
