"""The command ``penstock``."""

import argparse
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from optimizers import __version__
from optimizers.cli import doctor
from optimizers.comparing.variants import DEFAULT
from optimizers.error_boundary import is_debugging, showing_all, told_shortly, told_unforeseen
from optimizers.errors import PenstockError

_EXAMPLES = """\
examples:
  penstock compare                      a minute: hash, the paper's method and ours, side by side
  penstock compare shuffled             the same where there is nothing to gain
  penstock compare --with hash --with mine=locality+other --json found.json
  penstock compare my_module:my_workload --with hash --with d-choices
  penstock state CHECKPOINT             what a job keeps
  penstock doctor --start               whether this machine has what it takes
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 if all is well, 1 if what was looked for was found wanting, 2 if what was asked cannot be
    done, 130 if it was interrupted.
    """
    try:
        code = _run(_parser().parse_args(arguments))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        if not _has_lost_its_reader():
            raise
        return 0
    return code


def _run(options: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], int] = options.run
    with showing_all() if options.debug else nullcontext():
        try:
            return command(options)
        except KeyboardInterrupt:
            print("penstock: interrupted", file=sys.stderr)
            return 130
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _has_lost_its_reader():
                return 0
            if is_debugging():
                raise
            print("penstock:", _line_of(error), file=sys.stderr)
            return 2


def _has_lost_its_reader() -> bool:
    """Return whether who reads the output has seen enough, as `head` does; then be quiet."""
    try:
        sys.stdout.flush()
        number = sys.stdout.fileno()
    except BrokenPipeError:
        is_lost = True
    except OSError:  # it is no file
        return False
    else:
        look = select.poll()
        look.register(number, 0)
        is_lost = any(events & select.POLLERR for _, events in look.poll(0))
    if is_lost:
        # For Python's own last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return is_lost


def _line_of(error: Exception) -> str:
    """Return what is to be said of an error, in one line."""
    if isinstance(error, MemoryError):
        return f"there is not memory enough ({' '.join(str(error).split())}); ask for less"
    told = told_shortly(error) if isinstance(error, PenstockError) else told_unforeseen(error)
    words = [str(told), *(f"({note})" for note in getattr(told, "__notes__", ()))]
    return " ".join(" ".join(words).split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Optimizers for stream processing on Apache Spark.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_compare(commands)
    _add_state(commands)
    strategies = commands.add_parser("strategies", help="list the strategies to compare")
    strategies.set_defaults(run=_strategies)
    workloads = commands.add_parser("workloads", help="list the workloads to compare them on")
    workloads.set_defaults(run=_workloads)
    examined = commands.add_parser("doctor", help="see whether this machine has what it takes")
    examined.add_argument("--start", action="store_true", help="also try to start Spark")
    examined.set_defaults(run=_doctor)
    return parser


def _add_compare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    compare = commands.add_parser("compare", help="run a job under several strategies")
    add = compare.add_argument
    add(
        "workload",
        nargs="?",
        default="trending",
        help="on which data: a name, or the module:function of your own (default: trending)",
    )
    add(
        "--with",
        dest="variants",
        action="append",
        metavar="VARIANT",
        help="a strategy (see `penstock strategies`), or NAME=STRATEGY+STRATEGY; the first is what "
        f"others are measured against (default: {', '.join(DEFAULT)})",
    )
    add("--batches", type=int, default=12, help="how many micro-batches (default: 12)")
    add("--every", type=int, default=3, help="batches between decisions (default: 3)")
    add("--scale", type=float, default=1.0, help="how large the workload is (default: 1)")
    add("--seed", type=int, default=0, help="of the workload (default: 0)")
    add("--cores", type=int, help="how many cores to use (default: all)")
    add("--json", type=Path, metavar="FILE", help="write all figures to a file")
    compare.set_defaults(run=_compare)


def _add_state(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    state = commands.add_parser("state", help="look into the checkpoint of a job")
    add = state.add_argument
    add("folder", help="the checkpoint: a path, or a URI")
    add("operator", nargs="?", help="show the state of this operator")
    add("--rows", type=int, default=10, help="how many rows to show (default: 10)")
    add("--compact", action="store_true", help="join the files of each instance into one")
    add("--force", action="store_true", help="compact though a driver may be at work")
    add("--csv", type=Path, metavar="FILE", help="write the operator's state to a file")
    add("--parquet", type=Path, metavar="FILE", help="write the operator's state to a file")
    state.set_defaults(run=_state)


# What only one command needs is imported by it alone: the doctor must run where Spark cannot.


def _compare(options: argparse.Namespace) -> int:
    from optimizers.cli import compare  # noqa: PLC0415

    request = compare.Request(
        workload=options.workload,
        variants=options.variants or DEFAULT,
        batches=options.batches,
        every=options.every,
        scale=options.scale,
        seed=options.seed,
        cores=options.cores,
        json=options.json,
    )
    return compare.run(request, compare.Output(), compare.Output(stderr=True))


def _state(options: argparse.Namespace) -> int:
    from optimizers.cli import state  # noqa: PLC0415

    request = state.Request(
        folder=options.folder,
        operator=options.operator,
        rows=options.rows,
        compact=options.compact,
        force=options.force,
        csv=options.csv,
        parquet=options.parquet,
    )
    for line in state.lines(request):
        print(line)
    return 0


def _strategies(_: argparse.Namespace) -> int:
    from optimizers.plugins import registered  # noqa: PLC0415

    return _list({name: offer.about for name, offer in registered().items()})


def _workloads(_: argparse.Namespace) -> int:
    from optimizers.workloads import listed  # noqa: PLC0415

    return _list(listed())


def _list(abouts: Mapping[str, str]) -> int:
    """Print what each name stands for, in a line."""
    width = max(map(len, abouts))
    for name, about in abouts.items():
        print(f"{name:{width}}  {about}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    worst = 0
    for finding in doctor.examine(os.environ, start=options.start):
        print(finding, flush=True)
        worst = max(worst, finding.level is doctor.Level.PROBLEM)
    return worst
