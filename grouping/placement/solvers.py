"""Which solvers there are; light, as most placements need none."""

from importlib.util import find_spec

from sketches.errors import InvalidValueError, MissingPackageError

SOLVERS = ("CBC", "HiGHS")

_NEEDED = {"CBC": ("cbcbox", "'pulp[cbc]'"), "HiGHS": ("highspy", "highspy")}


def check_solver(solver: str, *, asked: bool) -> None:
    """Refuse a solver that is not known or not installed; the usual one only where it is asked."""
    if solver not in SOLVERS:
        raise InvalidValueError(
            f"solver={solver!r} is not known; use one of {', '.join(map(repr, SOLVERS))}"
        )
    if solver == SOLVERS[0] and not asked:
        return
    package, wanted = _NEEDED[solver]
    for name in ("pulp", package):
        if find_spec(name) is None:
            raise MissingPackageError(
                f"solver={solver!r} needs {name}; install it: pip install {wanted}"
            )
