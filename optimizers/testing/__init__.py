"""Contracts as test suites, for authors of strategies, groupings and sketches.

Subclass one in a test module and say what is tested; pytest does the rest::

    from optimizers.testing import GroupingContract, OptimizerContract, SketchContract

    class TestCalmer(OptimizerContract):
        optimizer = Calmer(patience=3)

    class TestFirstFew(GroupingContract):
        grouping = FirstFew(3)

    class TestTally(SketchContract):
        def empty(self):
            return Tally(width=20)

        def unfit(self):
            return [Tally(width=21)]

`OptimizerContract` asks a strategy about several worlds: a chain, a fork with a join, several
sources and sinks, with all statistics, with few and with none. Override `worlds` to add your own.
The other two look for streams that break a law, with Hypothesis. ``docs/testing-your-own.md`` says
what is tested, and what a subclass may set.
"""

from optimizers.testing.grouping_contract import GroupingContract
from optimizers.testing.optimizer_contract import OptimizerContract
from optimizers.testing.other_process import import_module_of
from optimizers.testing.sketch_contract import SketchContract
from optimizers.testing.sketch_suite import Sketch
from optimizers.testing.worlds import World, example_statistics, example_worlds, only

__all__ = [
    "GroupingContract",
    "OptimizerContract",
    "Sketch",
    "SketchContract",
    "World",
    "example_statistics",
    "example_worlds",
    "import_module_of",
    "only",
]
