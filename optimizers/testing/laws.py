"""Laws: tests of a suite that Hypothesis looks for counterexamples to, in each subclass."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from sketches.errors import MissingPackageError, PenstockError

try:
    from hypothesis import given, settings
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingPackageError(
        "optimizers.testing needs the package hypothesis, which cannot be imported; "
        "pip install 'penstock[testing]'"
    ) from error

_Law = Callable[..., None]


def law(test: _Law) -> _Law:
    """Mark a test that takes ``data``, out of which it draws its inputs."""
    test.law = test  # type: ignore[attr-defined]
    return test


class Laws:
    """Base of suites with laws.

    Attributes:
        examples: how many inputs each law is tried on; None for as many as the loaded profile of
            Hypothesis says.
    """

    examples: ClassVar[int | None] = 25

    def __init_subclass__(cls, **options: Any) -> None:
        """Give each subclass its own properties: Hypothesis keeps notes in the function."""
        super().__init_subclass__(**options)
        for name in dir(cls):
            test = getattr(inspect.getattr_static(cls, name), "law", None)
            if test is not None:
                setattr(cls, name, _property(test, cls.examples))


def _property(test: _Law, examples: int | None) -> _Law:
    drawn: _Law = given(data=st.data())(test)
    if examples is not None:
        # The time of an example depends on what else the machine does, not on what is tested.
        drawn = settings(max_examples=examples, deadline=None)(drawn)
    drawn.law = test  # type: ignore[attr-defined]
    return drawn


def refused(what: str, call: Callable[[], object], *, names: str) -> None:
    """Assert that something is refused, by an error of ours that names the value and a remedy.

    Args:
        what: what is wrong about it, for the message.
        call: what must be refused.
        names: what the error must name: the value, or its place.
    """
    try:
        result = call()
    except PenstockError as error:
        text = str(error)
        assert "\n" not in text, f"{what} is refused in several lines: {text!r}; say it in one"
        assert names in text, f"{what} is refused by {text!r}, which does not name {names}"
        assert ";" in text, (
            f"{what} is refused by {text!r}, which names no remedy; "
            "say what is wrong, then after a semicolon what to do"
        )
    except Exception as error:
        raise AssertionError(
            f"{what} is refused by {type(error).__name__}: {error}; "
            "raise an InvalidValueError or InvalidKeyError of optimizers.errors"
        ) from error
    else:
        raise AssertionError(f"{what} is not refused, the result is {result!r}; raise an error")
