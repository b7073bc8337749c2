"""What earlier decisions promised of local traffic, beside what the next epoch then found."""

import numpy as np

from optimizers.past import Past


def overpromised(past: Past, strategy: str, state: float, local: float) -> float:
    """Return how much less traffic became local than was promised, for each share of state moved.

    Of many placements, the one that seems best on a sample of the tuples owes some of that to the
    sample. So each decision is compared with what the next epoch finds, on average over all that
    are remembered. Without this, groups move for ever for what the last sample had by chance.

    Args:
        past: what is remembered, with the strategy's notes about the job.
        strategy: its name.
        state: how many bytes of state there are.
        local: the share of the traffic that is local in the present epoch.
    """
    lacking: list[float] = []
    promised: tuple[float, float] | None = None  # how much is local then, and what share moves
    for epoch in past.epochs:
        decision = epoch.decision
        if decision is None:
            continue
        said = {
            name: figure
            for note in decision.notes
            if (note.by, note.about) == (strategy, "the job")
            for name, figure in note.figures
        }
        if promised is not None and "local then" in said:
            lacking.append((promised[0] - said["local then"]) / promised[1])
        moves = decision.changed("placement") and {"local now", "bytes"} <= set(said)
        share = said["bytes"] / state if moves and state else 0.0
        promised = (said["local now"], share) if share else None
    if promised is not None:
        lacking.append((promised[0] - local) / promised[1])
    return max(0.0, float(np.mean(lacking))) if lacking else 0.0
