"""What a function of the user's raised, told in one line."""

import traceback

from optimizers.errors import FunctionError
from optimizers.front_door import OURS

_LONGEST = 500  # characters of a message; the whole of it is in the chain of errors

_LIBRARIES = ("numpy", "pandas", "pyarrow", "pyspark")  # that we call ourselves


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
    place = _place(error)
    return None if place is None else FunctionError(f"{what} raised {said(error)}, at {place}")


def said(error: BaseException) -> str:
    """Return the type and message of an error, as one line."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    text = " ".join(str(error).split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return f"{name}: {text}" if text else name


def _place(error: BaseException) -> str | None:
    """Return the innermost line that led to an error in the file of the user's function.

    None if no function of the user's was called: then what we did went wrong, or what we asked of
    a library.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [number for number, frame in enumerate(frames) if frame.filename.startswith(OURS)]
    called = [
        frame
        for frame in frames[ours[-1] + 1 if ours else 0 :]
        if not any(f"/{name}/" in f"/{frame.filename}" for name in _LIBRARIES)
    ]
    if not called:
        return None
    line = [frame for frame in called if frame.filename == called[0].filename][-1]
    return f"{line.filename}:{line.lineno} in {line.name}"
