"""Edits of articles: how often each article is edited in a minute, and the most edited one."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from optimizers.folds.aggregates import Count
from optimizers.folds.extremes import Max
from optimizers.folds.fold import Emit
from optimizers.simulation import Work
from optimizers.topology import Topology
from optimizers.workloads.workload import Batch, Workload

_EDITS = 20_000  # a batch, which is a minute
_ARTICLES, _CELLS = 20_000, 1_000
_STEEPNESS = 0.7  # of Zipf's law, by which articles are edited
_RISING = 0.02  # of all articles get another rank after a minute
_BOTS = 0.01  # of all edits are one program's, of one article, for a minute


def edits(scale: float, seed: int) -> Iterator[Batch]:
    """Yield edits, minute by minute: few articles have most of them, and not for long the same."""
    drawn = np.random.default_rng([seed, 67])
    articles, cells = (max(2, round(keys * scale)) for keys in (_ARTICLES, _CELLS))
    size, minute = max(1, round(_EDITS * scale)), 0
    shares = np.cumsum(np.arange(1, articles + 1) ** -_STEEPNESS)
    names, homes = drawn.permutation(articles), drawn.integers(0, cells, articles)
    while True:
        rank = np.searchsorted(shares, drawn.random(size) * shares[-1]).clip(0, articles - 1)
        rank[drawn.random(size) < _BOTS] = drawn.integers(articles)
        article = names[rank]
        columns = {
            "cell": pa.array([f"cell{number}" for number in homes[article].tolist()]),
            "article": pa.array([f"article{number}" for number in article.tolist()]),
            "minute": pa.array(np.full(size, minute)),
        }
        yield {"edits": pa.table(columns)}
        minute += 1
        risen = np.flatnonzero(drawn.random(articles) < _RISING)
        names[np.sort(risen)] = names[drawn.permutation(risen)]


_COUNTING = Work(20e-6, state_bytes=50)

EDITS = Workload(
    name="edits",
    about=(
        "edits of articles, by cell of the map, by article and minute, and the most edited one; "
        "heavy articles rise and fall, so that load drifts"
    ),
    topology=Topology.source("edits", parallelism=2)
    .then("by_cell", key="cell", parallelism=6, apply=Count(emit=Emit.TUPLES))
    .then(
        "by_article",
        key=("minute", "article"),
        parallelism=6,
        apply=Count(emit=Emit.CHANGES),
    )
    .then("most", key="minute", parallelism=2, apply=Max("count")),
    stream=edits,
    work={"by_cell": _COUNTING, "by_article": _COUNTING, "most": Work(5e-6, state_bytes=50)},
    rate=150_000,
)
