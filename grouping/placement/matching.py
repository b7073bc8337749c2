"""The most pairs that can be formed, each of one on the left and one on the right."""

from sketches.arrays import Marks


def matched(pairs: Marks) -> int:
    """Return how many pairs can be formed at most, so that each is in one pair at most.

    >>> import numpy as np
    >>> matched(np.array([[True, True], [True, False], [True, False]]))
    2

    Args:
        pairs: which of the left may be with which of the right, of shape (left, right).
    """
    partners = [row.nonzero()[0].tolist() for row in pairs]
    taken: dict[int, int] = {}
    return sum(_found(one, partners, taken) for one in range(len(partners)))


def _found(one: int, partners: list[list[int]], taken: dict[int, int]) -> bool:
    """Find a partner, if need be by having others change theirs (an augmenting path)."""
    came_from: dict[int, int] = {}
    waiting = [one]
    for left in waiting:
        for right in partners[left]:
            if right in came_from:
                continue
            came_from[right] = left
            if right not in taken:
                _change(one, right, came_from, taken)
                return True
            waiting.append(taken[right])
    return False


def _change(one: int, right: int, came_from: dict[int, int], taken: dict[int, int]) -> None:
    """Give each on the path the partner that was found for it."""
    partner = {left: at for at, left in taken.items()}
    while True:
        left = came_from[right]
        taken[right] = left
        if left == one:
            return
        right = partner[left]
