"""Comparing optimizers: the same job, on the same input, with results that are checked."""

from optimizers.comparing.compare import Rows, Step, compare
from optimizers.comparing.comparison import Comparison
from optimizers.comparing.outcome import BatchFacts, Difference, Outcome
from optimizers.control.decision import DecisionFacts

__all__ = [
    "BatchFacts",
    "Comparison",
    "DecisionFacts",
    "Difference",
    "Outcome",
    "Rows",
    "Step",
    "compare",
]
