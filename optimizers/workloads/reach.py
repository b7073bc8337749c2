"""Reach: how many users each tweet reaches, which takes long to compute for some authors only."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.extremes import Max
from optimizers.folds.rows import each_row
from optimizers.simulation import Work
from optimizers.simulation.stream import Columns
from optimizers.topology import Topology
from optimizers.workloads.followers import Followers
from optimizers.workloads.workload import Batch, Workload

_TWEETS = 10_000  # a batch
_TERMS = 500
_EXPONENT = 0.463  # of Zipf's law, by which the first of 9,960 authors writes .0038 of all tweets
_CALL, _EDGE = 26e-6, 3e-9  # seconds that a call takes, and for each edge that it follows
_UNLIKE = 1.5  # sigma of the noise between writing much and having many followers


@cache
def network() -> Followers:
    """Return the network of followers; made once in each process."""
    return Followers.made_up()


def popularity(network: Followers, seed: int) -> NDArray[np.float64]:
    """Return each user's share of all tweets; users with many followers write more."""
    rng = np.random.default_rng([seed, 53])
    followed = network.counts * np.exp(rng.normal(0.0, _UNLIKE, len(network)))
    shares = np.empty(len(network))
    shares[np.argsort(-followed, kind="stable")] = np.arange(1, len(network) + 1) ** -_EXPONENT
    shares /= shares.sum()
    return shares


@each_row
def with_reach(tweet: dict[str, Any]) -> dict[str, Any]:
    """Add to a tweet how many users it reaches in three steps."""
    return {**tweet, "reach": network().reach(tweet["author"])[0]}


@cache
def _effort(author: int) -> int:
    """Return how many edges it takes to compute an author's reach."""
    return network().reach(author)[1]


def seconds(columns: Columns) -> NDArray[np.float64]:
    """Return how long the reach of each tweet takes in a simulation, as measured in one process."""
    authors, rows = np.unique(np.asarray(columns["author"]), return_inverse=True)
    edges = np.array([_effort(author) for author in authors.tolist()])
    return (_CALL + _EDGE * edges)[rows]


def tweets(scale: float, seed: int) -> Iterator[Batch]:
    """Yield tweets, batch by batch, each with an author and a term."""
    number = max(1, round(_TWEETS * scale))
    rng = np.random.default_rng([seed, 59])
    shares = popularity(network(), seed)
    terms = np.arange(1, _TERMS + 1) ** -1.0
    while True:
        by = rng.choice(len(shares), number, p=shares)
        about = rng.choice(_TERMS, number, p=terms / terms.sum())
        words = pa.array([f"#term{term}" for term in about.tolist()])
        yield {"tweets": pa.table({"author": by, "term": words})}


REACH = Workload(
    name="reach",
    about=(
        "tweets, to how many users each gets over the followers of followers, and the most by "
        "term; what that takes depends on the author, and differs a thousandfold"
    ),
    topology=Topology.source("tweets", parallelism=2)
    .then(
        "reach",
        parallelism=4,
        apply="optimizers.workloads.reach:with_reach",
        edge_key="author",
    )
    .then("by_term", key="term", parallelism=2, apply=Max("reach")),
    stream=tweets,
    work={"reach": Work(seconds), "by_term": Work(20e-6, state_bytes=50)},
    rate=20_000,  # seven eighths of what four instances can do
)
