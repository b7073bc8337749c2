"""What is observed of keys that meet by their hash: pairs and moves by the keys themselves."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from cut_hash import cut_hash

from optimizers.runtime.observe.probes import _pairs

LEFT = [f"user {n % 700}" for n in range(2000)]
RIGHT = [n % 400 for n in range(2000)]


@pytest.mark.parametrize("bits", [8, 64])
def test_each_pair_is_told_by_itself(bits):
    sample = pa.table({"a": LEFT, "b": RIGHT})
    with cut_hash(bits):
        table = _pairs(sample, np.full(2000, 3), 5)

    found = zip(*(table.column(name).to_pylist() for name in ("left", "right")), strict=True)
    expected = Counter(zip(LEFT, RIGHT, strict=True))
    assert {pair: 3 * count for pair, count in expected.items()} == dict(
        zip(found, table.column("count").to_pylist(), strict=True)
    )
