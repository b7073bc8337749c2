"""`penstock strategies`: the strategies that can be compared, by name."""

import argparse

from optimizers.cli.listing import print_list
from optimizers.plugins import registered


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: it takes no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print them, those of other packages included."""
    print_list({name: offer.about for name, offer in registered().items()})
    return 0
