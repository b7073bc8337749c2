"""`penstock workloads`: the workloads to compare strategies on, by name."""

import argparse

from optimizers.cli.listing import print_list
from optimizers.workloads import listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: it takes no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print them, those of other packages included."""
    print_list(listed())
    return 0
