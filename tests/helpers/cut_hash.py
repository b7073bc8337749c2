"""A hash cut down to a few bits, so that keys meet all the time: for tests of what must be exact.

    with cut_hash(8):
        ...  # fingerprints, codes of pairs and places of keys have 256 values

All of it goes through `sketches.mixing.scatter`. The upper bits are the ones that stay, as keys go
to parts by these. Columns and tables hold what they have hashed, so make them inside. It holds for
this process only: tests under it run on the engine in process.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from sketches import fingerprints, mixing


@contextmanager
def cut_hash(bits: int) -> Iterator[None]:
    """Have all hashes of this process differ in their upper bits only.

    Args:
        bits: how many, from 1 to 64.
    """
    kept = np.uint64(((1 << bits) - 1) << (64 - bits))
    scatter = mixing.scatter

    def cut(codes: mixing.Codes, scratch: mixing.Codes, seed: int = 0) -> None:
        scatter(codes, scratch, seed)
        codes &= kept

    with patch.object(mixing, "scatter", cut), patch.object(fingerprints, "scatter", cut):
        yield
