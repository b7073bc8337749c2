"""Variants as they are written on a command line: ``locality``, ``mine=locality(worth=0)+osg``."""

import ast
import re
from collections.abc import Iterable
from typing import Any

from optimizers.chain import Chain
from optimizers.errors import InvalidValueError
from optimizers.optimizer import Optimizer
from optimizers.plugins import create

DEFAULT = ("hash", "published=locality-published", "locality")
"""The default variants."""


_NAMED = re.compile(r"([^=(]*)=(.*)", re.DOTALL)
_STEP = re.compile(r"([^()]*)(?:\((.*)\))?", re.DOTALL)


def variants_of(texts: Iterable[str]) -> dict[str, Optimizer | None]:
    """Return the variants that these texts describe, by name.

    >>> variants = variants_of(["hash", "both=locality(worth=0)+hash"])
    >>> variants["hash"], variants["both"].name
    (None, 'Locality + Hash')

    Raises:
        UnknownNameError: a strategy is not known.
        PluginError: a strategy cannot be made with these settings.
        InvalidValueError: two variants have one name, or one has none, or a text is not a variant.
    """
    found: dict[str, Optimizer | None] = {}
    for text in texts:
        named = _NAMED.fullmatch(text)
        name, strategies = named.groups() if named else (text, text)
        if not name or not strategies:
            raise InvalidValueError(
                f"{text!r} is not a variant; write a strategy, or NAME=STRATEGY+STRATEGY"
            )
        if name in found:
            raise InvalidValueError(
                f"two variants are called {name!r}; write NAME={strategies} for one of them"
            )
        found[name] = optimizer_of(strategies)
    return found


def optimizer_of(text: str) -> Optimizer | None:
    """Return the strategy of a text, or the chain of several; None for keys by hash."""
    if text == "hash":
        return None
    steps = [_strategy(step) for step in _steps(text)]
    return steps[0] if len(steps) == 1 else Chain(*steps)


def _steps(text: str) -> list[str]:
    """Divide a chain at each plus outside of parentheses."""
    steps, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "+" and not depth:
            steps.append("")
        else:
            steps[-1] += letter
    return steps


def _strategy(text: str) -> Optimizer:
    step = _STEP.fullmatch(text)
    if step is None:
        raise InvalidValueError(f"{text!r} is not a strategy; write NAME, or NAME(setting=value)")
    name, settings = step.groups()
    return create(name, **_settings(text, settings or ""))


def _settings(text: str, settings: str) -> dict[str, Any]:
    """Return the settings between the parentheses, each a literal of Python."""
    try:
        call = ast.parse(f"_({settings})", mode="eval").body
        match call:
            case ast.Call(ast.Name("_"), [], keywords):
                return {_word(each.arg): ast.literal_eval(each.value) for each in keywords}
    except (SyntaxError, ValueError):
        pass
    raise InvalidValueError(
        f"{text!r} has settings that cannot be read; write NAME(setting=value, other='text')"
    )


def _word(name: str | None) -> str:
    if name is None:
        raise ValueError("**settings")
    return name
