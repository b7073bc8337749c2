"""Values that travel to another process, and functions that run there."""

import base64
import importlib.util
import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def pickled(what: str, value: T) -> T:
    """Return what arrives when the value is sent to another process."""
    try:
        return pickle.loads(pickle.dumps(value))  # type: ignore[no-any-return]  # noqa: S301
    except (pickle.PickleError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"{what} does not pass through pickle: {error}; "
            "keep settings in the fields of a frozen dataclass at the top level of a module"
        ) from error


_ASKED_ELSEWHERE = """
import base64, json, pickle, sys
from optimizers.testing import import_module_of
answer, sys.stdout = sys.stdout, sys.stderr  # what is printed on the way is no answer
modules, question = sys.stdin
for name, path in json.loads(modules):
    import_module_of(name, path)
function, arguments = pickle.loads(base64.b64decode(question))
print(base64.b64encode(pickle.dumps(function(*arguments))).decode(), file=answer)
"""


def import_module_of(name: str, path: str) -> None:
    """Import a module by name, or from its file if there is none, or another, of that name."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is not None and found.origin == path:
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module; define what is tested in a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


class _ModulesOf(pickle.Unpickler):
    """Reads a pickle and remembers which modules it took."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.files: dict[str, str] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:
        found = super().find_class(module_name, global_name)
        path = getattr(sys.modules[module_name], "__file__", None)
        if path is not None:
            self.files[module_name] = path
        return found


def answer_elsewhere(
    asked: str, function: Callable[..., T], *arguments: Any, hash_seed: str = "1"
) -> T:
    """Return a function's result in a new process with another seed for built-in hashes.

    Args:
        asked: the question, for the message if there is no answer.
        function: a function at the top level of a module.
        arguments: its arguments; they pass through pickle.
        hash_seed: the ``PYTHONHASHSEED`` of that process.
    """
    pickled(asked, arguments)
    question = pickle.dumps((function, arguments))
    modules = _ModulesOf(question)
    modules.load()
    process = subprocess.run(  # noqa: S603  # our own interpreter, our own words
        [sys.executable, "-P", "-c", _ASKED_ELSEWHERE],
        input=f"{json.dumps(list(modules.files.items()))}\n{base64.b64encode(question).decode()}",
        capture_output=True,
        check=False,
        text=True,
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(place or os.getcwd() for place in sys.path),  # noqa: PTH109
        },
    )
    assert process.returncode == 0, f"{asked} cannot answer in another process:\n{process.stderr}"
    answer: T = pickle.loads(base64.b64decode(process.stdout))  # noqa: S301
    return answer
