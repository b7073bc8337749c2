"""Run the benchmarks: ``python tests/benchmarks [name ...] [--scale 0.1]``.

Each ``bench_<name>.py`` beside this file has ``run(scale) -> list[Result]``; at scale 1 it measures
what its goals speak of, and the exit code is 1 if one of them is missed. At any other scale the
goals are shown but not judged.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).resolve().parent
_PREFIX = "bench_"


def load(name: str) -> ModuleType:
    """Import a file of this folder by its path, however Python was started."""
    spec = importlib.util.spec_from_file_location(name, _HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{_HERE / name}.py is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that a benchmark can say ``from harness import Result``
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str] | None = None) -> int:
    """Run the named benchmarks, or all, and return the exit code."""
    known = sorted(path.stem.removeprefix(_PREFIX) for path in _HERE.glob(f"{_PREFIX}*.py"))
    parser = argparse.ArgumentParser(prog="python tests/benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(known)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
    if not options.scale > 0:
        parser.error(f"--scale {options.scale} must be above 0")

    harness = load("harness")
    missed = 0
    for name in options.names or known:
        start = time.perf_counter()
        results = load(_PREFIX + name).run(options.scale)
        sys.stdout.write(f"{name}  ({time.perf_counter() - start:.0f} s)\n")
        sys.stdout.write(f"{harness.table(results)}\n\n")
        sys.stdout.flush()
        missed += sum(not result.holds for result in results)
    if options.scale != 1:
        sys.stdout.write("goals are for --scale 1; they were not judged\n")
        return 0
    sys.stdout.write(f"{missed} goals missed\n" if missed else "every goal is met\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
