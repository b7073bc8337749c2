"""Contracts as test suites, for authors of strategies.

Subclass one in a test module and say what is meant; pytest does the rest::

    from optimizers.testing import OptimizerContract

    class TestCalmer(OptimizerContract):
        optimizer = Calmer(patience=3)

Each test asks the strategy about several worlds: a chain, a fork with a join, several sources and
sinks, with all statistics, with few and with none. Override `worlds` to add some of your own.
"""

from optimizers.testing.grouping_contract import GroupingContract
from optimizers.testing.optimizer_contract import OptimizerContract
from optimizers.testing.other_process import import_module_of
from optimizers.testing.worlds import World, example_statistics, example_worlds, only

__all__ = [
    "GroupingContract",
    "OptimizerContract",
    "World",
    "example_statistics",
    "example_worlds",
    "import_module_of",
    "only",
]
