"""What a function of the user's raised, in one line."""

from optimizers.error_boundary import place_of, was_called
from optimizers.errors import FunctionError

_LONGEST = 500  # characters of a message; the whole of it is in the chain of errors


def raised_by(what: str, error: Exception) -> FunctionError | None:
    """Return an error of ours for one that a function of the user's raised; None if none did.

    Args:
        what: what the function is given for, in words.
        error: what was raised; to be given as the cause of the error returned.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     print(raised_by("operator 'inverse'", error))
    operator 'inverse' raised ZeroDivisionError: division by zero, at <doctest ...>:2 in <module>
    """
    place = place_of(error) if was_called(error) else ""
    return FunctionError(f"{what} raised {said(error)}, at {place}") if place else None


def said(error: BaseException) -> str:
    """Return the type and message of an error, as one line."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  # a class of the user's may say anything, or nothing
        text = ""
    text = text.encode(errors="replace").decode()  # a lone surrogate fits no file
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return f"{name}: {text}" if text else name
