"""Names of array types, by their elements."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Loads, costs, times, shares."""

Integers: TypeAlias = NDArray[np.int64]
"""Counts, and numbers of keys, rows or tuples."""

Parts: TypeAlias = NDArray[np.int32]
"""Numbers of instances, nodes or parts of a division."""

Codes: TypeAlias = NDArray[np.uint64]
"""Codes of keys: 64 bits that say where a key goes, not which key it is."""

Indices: TypeAlias = NDArray[np.intp]
"""Places in another array, as numpy's own functions return them."""

Marks: TypeAlias = NDArray[np.bool_]
"""Which elements of another array are meant."""
