"""Giving new parts the names of the old ones that they resemble most."""

import numpy as np
from numpy.typing import NDArray


def best_matching(gains: NDArray[np.float64]) -> NDArray[np.intp]:
    """Match each row with a column of its own so that the gains add up to the most possible.

    The Hungarian method, one row after the other along shortest augmenting paths: cubic in the
    number of rows, its innermost loop in numpy.

    >>> best_matching(np.array([[9.0, 8.0], [8.0, 1.0]])).tolist()
    [1, 0]

    Args:
        gains: a square matrix of finite numbers.

    Returns:
        The column of each row.

    References:
        R. Jonker, A. Volgenant, "A shortest augmenting path algorithm for dense and sparse linear
        assignment problems", Computing 38 (1987).
    """
    size = len(gains)
    costs = gains.max(initial=0.0) - gains
    row_prices = np.zeros(size)
    column_prices = np.zeros(size)
    row_of = np.full(size, -1)
    for row in range(size):
        distances = np.full(size, np.inf)
        before = np.full(size, -1)
        done = np.zeros(size, dtype=np.bool_)
        here, reached, column = row, 0.0, -1
        while here >= 0:
            through = reached + costs[here] - row_prices[here] - column_prices
            shorter = ~done & (through < distances)
            distances[shorter] = through[shorter]
            before[shorter] = column
            column = int(np.where(done, np.inf, distances).argmin())
            reached = float(distances[column])
            done[column] = True
            here = int(row_of[column])
        row_prices[row] += reached
        matched = done & (row_of >= 0)
        row_prices[row_of[matched]] += reached - distances[matched]
        column_prices[done] -= reached - distances[done]
        while column >= 0:
            earlier = int(before[column])
            row_of[column] = row if earlier < 0 else row_of[earlier]
            column = earlier
    columns = np.empty(size, dtype=np.intp)
    columns[row_of] = np.arange(size)
    return columns
