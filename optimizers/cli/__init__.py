"""The command ``penstock``."""

import argparse
import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from io import TextIOWrapper

from optimizers import __version__
from optimizers.error_boundary import is_debugging, shortened, showing_all, unforeseen
from optimizers.errors import PenstockError

_COMMANDS = {
    "compare": "run a job under several strategies",
    "strategies": "list the strategies to compare",
    "workloads": "list the workloads to compare them on",
    "state": "look into the checkpoint of a job",
    "calibrate": "measure what a micro-batch takes here",
    "doctor": "see whether this machine has what it takes",
}
"""The commands. Each has a module here, with `add_arguments` and `run`."""

_EXAMPLES = """\
examples:
  penstock compare                      a minute: hash, the paper's method and ours, side by side
  penstock compare shuffled             the same where there is nothing to gain
  penstock compare --with hash --with 'mine=locality(worth=0)+osg' --json found.json
  penstock compare reach --engine simulation --with hash --with osg
  penstock compare my_module:my_workload --with hash --with d-choices
  penstock calibrate --json here.json   what a batch takes here, for aeolus(costs='here.json')
  penstock state CHECKPOINT             what a job keeps
  penstock doctor --start               whether this machine has what it takes
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 if all is well, 1 if a check found a fault, 2 if the request cannot be carried out, 130 if it
    was interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may know ASCII only, and no ±
            stream.reconfigure(errors="replace")
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        if not _has_lost_its_reader():
            raise
        return 0
    return code


def _run(arguments: Sequence[str]) -> int:
    with showing_all() if "--debug" in arguments else nullcontext():
        try:
            options = _parser(arguments).parse_args(arguments)
            command: Callable[[argparse.Namespace], int] = options.run
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
    """Return whether the reader of the output closed the pipe, as `head` does; then be quiet."""
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
    """Return the message for an error, in one line."""
    if isinstance(error, MemoryError):
        return f"there is not memory enough ({' '.join(str(error).split())}); ask for less"
    short = shortened(error) if isinstance(error, PenstockError) else unforeseen(error)
    words = [str(short), *(f"({note})" for note in getattr(short, "__notes__", ()))]
    return " ".join(" ".join(words).split())


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of these arguments; only the command that they name is imported."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Optimizers for stream processing on Apache Spark.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, about in _COMMANDS.items():
        command = commands.add_parser(name, help=about)
        if name in arguments:
            # The doctor must run where Spark cannot be imported.
            module = import_module(f"optimizers.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser
