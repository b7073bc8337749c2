"""The contract of `Optimizer` as a test suite."""

import copy
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from typing import ClassVar

from optimizers.chain import Chain
from optimizers.errors import PenstockError, PlanError, UnknownNameError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe
from optimizers.testing.other_process import answer_elsewhere, pickled
from optimizers.testing.worlds import World, example_worlds


class OptimizerContract:
    """The laws of every strategy. Set `optimizer` in a subclass."""

    optimizer: ClassVar[Optimizer]
    _known_answers: ClassVar[tuple[Optimizer, list[tuple[World, Plan]]]]

    def worlds(self) -> Iterable[World]:
        """Return the worlds to ask about."""
        return example_worlds()

    def _answered(self) -> list[tuple[World, Plan]]:
        """Return all worlds with what is decided in each, which is asked once for all tests."""
        known = vars(type(self)).get("_known_answers")
        answers: list[tuple[World, Plan]]
        if known is not None and known[0] is self.optimizer:
            answers = known[1]
        else:
            answers = [(world, world.ask(self.optimizer)) for world in self.worlds()]
            self._keep(self.optimizer, answers)
        return answers

    @classmethod
    def _keep(cls, optimizer: Optimizer, answers: list[tuple[World, Plan]]) -> None:
        cls._known_answers = optimizer, answers

    def test_gives_the_same_answer_to_the_same_question(self) -> None:
        """A second call decides as the first did: without clock, dice or memory."""
        for world, first in self._answered():
            _agree(f"asked twice, {self.optimizer.name} answers", first, world.ask(self.optimizer))

    def test_travels(self) -> None:
        """A strategy passes through pickle, and its copy decides as it does."""
        copied = pickled(self.optimizer.name, self.optimizer)
        for world, plan in self._answered():
            _agree("a pickled copy answers", plan, world.ask(copied))

    def test_plans_travel(self) -> None:
        """A plan passes through pickle and through JSON unharmed."""
        for _, plan in self._answered():
            _agree("pickled, the plan is", plan, pickled("its plan", plan))
            try:
                back = Plan.from_json(plan.to_json())
            except (PenstockError, TypeError, ValueError) as error:
                raise AssertionError(
                    f"{plan!r} does not pass through JSON: {error}; "
                    "decide by groupings and numbers that do"
                ) from error
            _agree("written as JSON and read, the plan is", plan, back)

    def test_mentions_only_what_exists(self) -> None:
        """A plan fits the topology and the cluster it was asked about."""
        for world, plan in self._answered():
            try:
                plan.check(world.topology, world.cluster)
            except (PlanError, UnknownNameError) as error:
                raise AssertionError(
                    f"{self.optimizer.name} decided {plan!r}, which does not fit the job: {error}"
                ) from error

    def test_decides_nothing_without_data(self) -> None:
        """Without the statistics it observes, a strategy leaves everything as it is."""
        if not self.optimizer.observes:
            return  # it may, as it decides without data by design
        for world in self.worlds():
            plan = world.seen_by(()).ask(self.optimizer)
            assert not plan, (
                f"{self.optimizer.name} observes {_names(self.optimizer.observes)} and "
                f"decided {plan!r} without having seen any; return Plan() then"
            )

    def test_needs_no_more_than_it_observes(self) -> None:
        """Statistics that a strategy does not observe may be absent, and make no difference."""
        observes = self.optimizer.observes
        for probe in observes:
            assert isinstance(probe, Probe), (
                f"{self.optimizer.name} observes {probe!r}, which is no Probe; "
                f"choose from {_names(Probe)}"
            )
        for world, plan in self._answered():
            _agree(
                f"given only what it observes ({_names(observes)}), {self.optimizer.name} answers",
                plan,
                world.seen_by(observes).ask(self.optimizer),
            )

    def test_agrees_with_itself(self) -> None:
        """A chain of it alone decides as it does, and the plan in force afterwards fits the job."""
        for world, plan in self._answered():
            try:
                _agree("alone in a chain it answers", plan, world.ask(Chain(self.optimizer)))
                after = world.current.amended(plan | plan, world.cluster)
                after.check(world.topology, world.cluster)
            except (PlanError, UnknownNameError) as error:
                raise AssertionError(
                    f"{self.optimizer.name} decided {plan!r} where {world.current!r} is in force, "
                    f"and the two together do not fit the job: {error}"
                ) from error

    def test_does_not_touch_its_arguments(self) -> None:
        """The world is the same after the question as before."""
        for world in self.worlds():
            before = copy.deepcopy(world)
            world.ask(self.optimizer)
            touched = [
                field.name
                for field in fields(World)
                if getattr(world, field.name) != getattr(before, field.name)
            ]
            assert not touched, (
                f"{self.optimizer.name} changed its arguments: {', '.join(touched)}; "
                "work on copies of what can change"
            )

    def test_gives_the_same_answer_in_another_process(self) -> None:
        """Another process, with another seed for built-in hashes, decides the same."""
        worlds, here = zip(*self._answered(), strict=True)
        seeds = ("1", "2")
        with ThreadPoolExecutor(len(seeds)) as at_once:
            answers = at_once.map(partial(_answers_elsewhere, self.optimizer, worlds), seeds)
        for seed, there in zip(seeds, answers, strict=True):
            for first, second in zip(here, there, strict=True):
                _agree(
                    f"in a process with PYTHONHASHSEED={seed}, {self.optimizer.name} answers "
                    "(look for hash() and for sets that are iterated)",
                    first,
                    second,
                )


def _agree(how: str, expected: Plan, actual: Plan) -> None:
    assert expected == actual, f"{how} {actual!r} and not {expected!r}"


def _names(probes: Iterable[Probe]) -> str:
    return ", ".join(sorted(probes)) or "nothing"


def _answers(optimizer: Optimizer, worlds: Sequence[World]) -> list[Plan]:
    return [world.ask(optimizer) for world in worlds]


def _answers_elsewhere(optimizer: Optimizer, worlds: Sequence[World], hash_seed: str) -> list[Plan]:
    return answer_elsewhere(optimizer.name, _answers, optimizer, worlds, hash_seed=hash_seed)
