"""Strategies by name: Penstock's own, its baselines, and those of other packages.

A package offers strategies in its ``pyproject.toml``::

    [project.entry-points."penstock.optimizers"]
    calmer = "calmer_streams:Calmer"

An entry may also name a grouping, which is then used `Everywhere` it fits. A package is imported
only when its strategy is asked for. A strategy that no package offers goes by its import path,
``"calmer_streams:Calmer"``.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from grouping.groupings import (
    DChoices,
    Fields,
    FullKnowledge,
    Grouping,
    LeastWork,
    LocalOrShuffle,
    OnlineShuffle,
    PartialKey,
    ShortestQueue,
    Shuffle,
    TwoChoices,
    WChoices,
)
from optimizers.control.engine import Engine
from optimizers.entry_points import at_path, imported, offered, offered_as, place_of
from optimizers.errors import PenstockError, PluginError
from optimizers.optimizer import Optimizer
from optimizers.strategies.admission import Admission
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.aeolus_published import PublishedAeolus
from optimizers.strategies.albic import Albic
from optimizers.strategies.albic_published import PublishedAlbic
from optimizers.strategies.balanced_keys import BalancedKeys
from optimizers.strategies.both_choices import BothChoices
from optimizers.strategies.ds2 import Ds2
from optimizers.strategies.everywhere import Everywhere
from optimizers.strategies.fixed import Hash
from optimizers.strategies.group_rivals import GroupRival
from optimizers.strategies.locality import Locality
from optimizers.strategies.locality_published import PublishedLocality
from optimizers.strategies.osg import Osg
from optimizers.strategies.osg_published import PublishedOsg
from sketches.values import FrozenMap

GROUP = "penstock.optimizers"

_DEFAULT_ENGINE = "optimizers.spark.local_engine:local_engine"


@dataclass(frozen=True, slots=True)
class Offer:
    """A strategy that is available by name.

    Attributes:
        name: the name.
        about: one line that says what it does, or which package it comes from.
        factory: makes it from its settings; a grouping is used `Everywhere` it fits.
    """

    name: str
    about: str
    factory: Callable[..., object]

    def __str__(self) -> str:
        return f"strategy {self.name!r} ({self.about})"


_OURS = FrozenMap(
    {
        name: Offer(name, about, factory)
        for name, factory, about in (
            ("hash", Hash, "keys by their hash, other tuples in turn, as engines do by default"),
            ("locality", Locality, "keys that occur together belong to one machine"),
            ("locality-published", PublishedLocality, "locality by the method of its paper"),
            ("osg", Osg, "each tuple to the instance that finishes it first, by learned costs"),
            ("osg-published", PublishedOsg, "osg by the method of its paper"),
            ("aeolus", Aeolus, "instances, batches, stages and admission by what they cost"),
            ("aeolus-published", PublishedAeolus, "aeolus by the method of its paper"),
            ("pid", partial(Admission, "pid"), "admits by the rate estimator of Spark's DStreams"),
            ("fixed-point", partial(Admission, "fixed-point"), "admits by Das et al., 2014"),
            ("dybbs", partial(Admission, "dybbs"), "admits by isotonic regression, as DyBBS"),
            ("ds2", Ds2, "as many instances as rates need, by what operators could do"),
            ("albic", Albic, "key groups on nodes so that load is even, under a budget for moves"),
            ("flux", partial(GroupRival, "flux"), "key groups between pairs of nodes, as Flux"),
            ("readj", partial(GroupRival, "readj"), "key groups off the fullest node, as Readj"),
            (
                "longest-first",
                partial(GroupRival, "longest-first"),
                "key groups from scratch, by load",
            ),
            ("cola", partial(GroupRival, "cola"), "key groups on nodes from scratch, as COLA"),
            ("potc", BothChoices, "each key on two instances, merged later, as PoTC"),
            ("albic-published", PublishedAlbic, "albic by the method of its paper"),
            ("balanced-keys", BalancedKeys, "equal shares for all instances, heavy keys by name"),
            # Groupings, on all edges that they fit.
            ("fields", Fields, "all tuples of a key to one instance, by hash"),
            ("partial-key", PartialKey, "each tuple to the emptier of two instances of its key"),
            ("d-choices", DChoices, "as partial-key, heavy keys to as many as balance needs"),
            ("w-choices", WChoices, "as partial-key, heavy keys to any instance"),
            ("shuffle", Shuffle, "tuples in turn"),
            ("local-or-shuffle", LocalOrShuffle, "tuples in turn to instances on their machine"),
            ("least-work", LeastWork, "what osg decides for, with no costs known to begin with"),
            ("online-shuffle", OnlineShuffle, "what osg decides for in its paper"),
            ("shortest-queue", ShortestQueue, "each tuple to the instance where the fewest wait"),
            (
                "two-choices",
                TwoChoices,
                "each tuple to the emptier of two drawn at random",
            ),
            (
                "full-knowledge",
                FullKnowledge,
                "to the instance that really finishes it first; for simulations",
            ),
        )
    }
)


def registered() -> Mapping[str, Offer]:
    """Return all available strategies by name: ours and those of other packages.

    Raises:
        PluginError: two packages offer different strategies under one name.
    """
    theirs = offered(GROUP, "strategy", _OURS)
    return FrozenMap({**_OURS, **{name: _offer(point) for name, point in theirs.items()}})


def create(name: str, **settings: Any) -> Optimizer:
    """Make the strategy of that name or import path, with these settings.

    >>> create("locality", worth=0)
    Locality(..., worth=0, ...)
    >>> create("partial-key", choices=3)
    Everywhere(grouping=PartialKey(choices=3))
    >>> create("optimizers.strategies.fixed:Hash")
    Hash()

    Args:
        name: the name of one of ours or of an installed package's, or ``"module:name"`` of a class,
            of a function that makes a strategy, or of a strategy.
        settings: for the class or function.

    Raises:
        UnknownNameError: there is no strategy of that name.
        PluginError: it cannot be imported, or made, or is neither an `Optimizer` nor a `Grouping`;
            or two packages offer different strategies under the name.
    """
    offer = _offer_of(name)
    try:
        made = offer.factory(**settings)
    except PenstockError:
        raise
    except Exception as error:
        raise PluginError(f"{offer} cannot be made from {settings!r}: {error}") from error
    if isinstance(made, Grouping):
        return Everywhere(made)
    if not isinstance(made, Optimizer):
        raise PluginError(
            f"{offer} is a {type(made).__name__}, and neither an Optimizer nor a Grouping; "
            "subclass one of them"
        )
    return made


def _offer_of(name: str) -> Offer:
    if name in _OURS:
        return _OURS[name]
    if ":" in name:
        return Offer(name, "by its import path", partial(_make, at_path(name)))
    return _offer(offered_as(GROUP, "strategy", name, _OURS))


def _offer(point: EntryPoint) -> Offer:
    return Offer(point.name, place_of(point), partial(_make, point))


def default_engine() -> AbstractContextManager[Engine]:
    """Return the engine that runs comparisons that name none, for a ``with`` statement."""
    module, _, name = _DEFAULT_ENGINE.partition(":")
    engine: AbstractContextManager[Engine] = getattr(import_module(module), name)()
    return engine


def _make(point: EntryPoint, **settings: Any) -> object:
    where = f" {place_of(point)}" if point.group else ""
    found = imported(point, f"strategy {point.name!r}{where}")
    if isinstance(found, Optimizer | Grouping) and not settings:
        return found
    return found(**settings)
