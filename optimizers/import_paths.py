"""Functions by their import path, ``"package.module:name"``, as documents hold them."""

import importlib
import re
from collections.abc import Callable
from typing import Any

from optimizers.errors import TopologyError

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def reference_to(function: Callable[..., Any] | str) -> str:
    """Return the import path of a function.

    >>> import math
    >>> reference_to(math.sqrt)
    'math:sqrt'
    """
    if not callable(function) and not isinstance(function, str):
        raise TopologyError(f"{function!r} is not a function; give one, or its import path")
    if isinstance(function, str):
        if not _REFERENCE.fullmatch(function):
            raise TopologyError(f"{function!r} is not an import path; write 'package.module:name'")
        return function
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    reference = f"{module}:{name}"
    if None in (module, name) or module == "__main__" or not _REFERENCE.fullmatch(reference):
        raise TopologyError(
            f"{function!r} cannot be imported by its name; "
            "define it at the top level of a module that can be imported"
        )
    if function_at(reference) is not function:
        raise TopologyError(
            f"{function!r} is not what is imported from {reference!r}; give that one"
        )
    return reference


def function_at(reference: str) -> Callable[..., Any]:
    """Import the function at this import path."""
    module, _, path = reference_to(reference).partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise TopologyError(f"no function can be imported from {reference!r}: {error}") from error
    if not callable(found):
        raise TopologyError(f"{reference!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]
