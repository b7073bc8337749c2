"""A large migration in slices: which moves come first, within a bound on each slice."""

from dataclasses import dataclass

import numpy as np

from grouping.errors import PlacementError
from grouping.placement.problem import ROUNDING
from sketches.arrays import Floats, Marks
from sketches.checks import number
from sketches.values import ArrayValue, protected


@dataclass(frozen=True, eq=False)
class Slice(ArrayValue):
    """The next slice of a migration.

    Attributes:
        moves: which of the moves that are left are in it.
        cost: what these cost.
        left: what those cost that are left after it.
        slices: how many slices there are at least, this one included.
    """

    moves: Marks
    cost: float
    left: float
    slices: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "moves", protected(self.moves))


def next_slice(costs: Floats, gains: Floats, bound: float, *, least: float = 0.0) -> Slice:
    """Return the moves of the next slice: those that gain most for what they cost, as they fit.

    >>> found = next_slice([4.0, 3.0, 2.0], [1.0, 9.0, 4.0], bound=5.0)
    >>> found.moves.tolist(), found.cost, found.left, found.slices
    ([False, True, True], 5.0, 4.0, 2)

    Args:
        costs: what each move that is left costs.
        gains: what each gains; of equal ones for their cost, the first comes first.
        bound: what one slice may cost.
        least: what one slice costs that is too large for any bound, which is refused otherwise:
            a move that costs no more than this may have a slice of its own.

    Raises:
        PlacementError: a move costs more than a slice may.
    """
    price, worth = np.asarray(costs, dtype=np.float64), np.asarray(gains, dtype=np.float64)
    limit = max(number("bound", bound, above=0), least) * (1 + ROUNDING)
    over = np.flatnonzero(price > limit)
    if len(over):
        raise PlacementError(
            f"a move costs {price[over].max():g}, and a slice may cost {bound:g}; allow "
            f"{price[over].max():g} at least"
        )
    order = np.argsort(-worth / np.maximum(price, ROUNDING), kind="stable")
    moves, spent = np.zeros(len(price), dtype=np.bool_), 0.0
    for move in order.tolist():
        if spent + price[move] <= limit:
            moves[move] = True
            spent += float(price[move])
    left = float(price[~moves].sum())
    return Slice(moves, spent, left, int(moves.any()) + int(np.ceil(left / limit)))
