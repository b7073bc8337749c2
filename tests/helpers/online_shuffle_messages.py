"""Columns of codes, a cost sketch's shape to draw, and matrices with two costs."""

import numpy as np
from hypothesis import strategies as st

from grouping.scheduling.online_shuffle.costs import KeyPlaces
from grouping.scheduling.online_shuffle.messages import Matrices
from sketches.keys import IntegerKeys

CODES = st.integers(0, 9) | st.integers(0, (1 << 64) - 1)
SECONDS = st.integers(0, 64).map(lambda milliseconds: milliseconds / 1000)
SHAPES = {"width": st.integers(1, 9), "depth": st.integers(1, 4), "seed": st.integers(0, 99)}
shapes = st.fixed_dictionaries(SHAPES)


def column(codes):
    return IntegerKeys(np.array(codes, dtype=np.uint64))


class Cheap:
    """Keys by their cell in matrices of one row of two cells."""

    shape = {"width": 2, "depth": 1, "seed": 0}  # noqa: RUF012  # never written to
    places = KeyPlaces(**shape)
    a = next(code for code in range(99) if KeyPlaces(width=2, depth=1, seed=0)[code] == (0,))
    b = next(code for code in range(99) if KeyPlaces(width=2, depth=1, seed=0)[code] == (1,))


def matrices(instance, number=1, *, a=1.0, b=10.0):
    return Matrices(instance, number, counts=(1, 1), costs=(a, b), mean=(a + b) / 2)
