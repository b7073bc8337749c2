"""Variants as they are written on a command line: ``locality``, or ``mine=locality+other``."""

from collections.abc import Iterable

from optimizers.chain import Chain
from optimizers.errors import InvalidValueError
from optimizers.optimizer import Optimizer
from optimizers.plugins import create

DEFAULT = ("hash", "published=locality-published", "locality")
"""What is compared where nothing is said."""


def variants_of(texts: Iterable[str]) -> dict[str, Optimizer | None]:
    """Return the variants that these texts mean, by their names.

    >>> variants = variants_of(["hash", "both=locality+hash"])
    >>> variants["hash"], variants["both"].name
    (None, 'Locality + Hash')

    Raises:
        UnknownNameError: a strategy is not known.
        InvalidValueError: two variants have one name, or one has none.
    """
    found: dict[str, Optimizer | None] = {}
    for text in texts:
        name, equals, strategies = text.partition("=")
        if not name or (equals and not strategies):
            raise InvalidValueError(
                f"{text!r} is no variant; write a strategy, or NAME=STRATEGY+STRATEGY"
            )
        if name in found:
            raise InvalidValueError(
                f"two variants are called {name!r}; write NAME={strategies or name} for one of them"
            )
        found[name] = optimizer_of(strategies or name)
    return found


def optimizer_of(text: str) -> Optimizer | None:
    """Return the strategy of this name, or the chain of several; None for keys by hash."""
    if text == "hash":
        return None
    steps = [create(name) for name in text.split("+")]
    return steps[0] if len(steps) == 1 else Chain(*steps)
