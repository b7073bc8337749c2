"""The command ``penstock``."""

import argparse
import sys
from collections.abc import Sequence

from optimizers import __version__
from optimizers.errors import PenstockError
from optimizers.tour import tour


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or 2 if what was asked cannot be done."""
    parser = argparse.ArgumentParser(
        prog="penstock", description="Optimizers for stream processing on Apache Spark."
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    show = commands.add_parser("tour", help="see what Penstock does, in a few seconds")
    show.add_argument("--seed", type=int, default=7, help="of the stream it makes (default: 7)")
    options = parser.parse_args(arguments)
    try:
        for line in tour(options.seed):
            print(line, flush=True)
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 2
    return 0
