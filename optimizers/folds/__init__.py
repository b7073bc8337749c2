"""What operators do: vectorised folds over the tuples of many keys, and stateless functions."""

from optimizers.folds.aggregates import Count, Mean, Sum
from optimizers.folds.each_key import DELETE, EachKey
from optimizers.folds.extremes import Last, Max, Min
from optimizers.folds.fold import Emit, Fold, Step
from optimizers.folds.key_codes import KeyNumbers, codes_of, key_numbers
from optimizers.folds.rows import RowFunction, as_batches, each_row
from optimizers.folds.tallies import Distinct, TopK
from optimizers.folds.together import Together

__all__ = [
    "DELETE",
    "Count",
    "Distinct",
    "EachKey",
    "Emit",
    "Fold",
    "KeyNumbers",
    "Last",
    "Max",
    "Mean",
    "Min",
    "RowFunction",
    "Step",
    "Sum",
    "Together",
    "TopK",
    "as_batches",
    "codes_of",
    "each_row",
    "key_numbers",
]
