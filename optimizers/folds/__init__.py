"""What operators do: vectorised folds over the tuples of many keys, and stateless functions."""

from optimizers.folds.aggregates import Count, Mean, Sum
from optimizers.folds.fold import Emit, Fold, Step
from optimizers.folds.keys import KeyNumbers, codes_of, key_numbers
from optimizers.folds.rows import as_batches

__all__ = [
    "Count",
    "Emit",
    "Fold",
    "KeyNumbers",
    "Mean",
    "Step",
    "Sum",
    "as_batches",
    "codes_of",
    "key_numbers",
]
