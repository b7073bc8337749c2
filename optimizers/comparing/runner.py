"""The work of a comparison: every variant runs each batch, and its results are checked."""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from optimizers import __version__
from optimizers.comparing.compare import ComparedBatch
from optimizers.comparing.comparison import Comparison
from optimizers.comparing.diff.tables import (
    output_difference,
    parts_difference,
    state_difference,
)
from optimizers.comparing.outcome import Difference, Outcome
from optimizers.comparing.recording import recordings
from optimizers.comparing.reference import Reference
from optimizers.control.decision import Decision, DecisionFacts
from optimizers.control.engine import Engine, Harness, Recording
from optimizers.control.run_summary import RunSummary
from optimizers.errors import InvalidValueError
from optimizers.folds.fold import Emit
from optimizers.optimizer import Optimizer
from optimizers.runtime.task.user_errors import said
from optimizers.runtime.work import fold_of
from optimizers.topology import Topology
from sketches.checks import whole
from sketches.values import FrozenMap

_SHOWN = 200  # characters of a strategy's description


def run_comparison(  # noqa: PLR0913
    topology: Topology,
    source: Any,
    variants: Mapping[str, Optimizer | None],
    *,
    engine: Engine,
    warm_up: int,
    title: str,
    watch: Callable[[ComparedBatch], None] | None,
) -> Comparison:
    """Run a comparison; see `compare`."""
    report = watch or _ignored
    harness = engine.harness(topology)
    # 1. Record batches as they are asked for, and begin all variants.
    batches = recordings(harness, topology, source, warm_up)
    runs = [VariantRun(harness, topology, name, given) for name, given in variants.items()]
    with TemporaryDirectory(prefix="penstock-reference-") as folder:
        reference = None
        if harness.computes:
            reference = Reference(topology, f"{folder}/all", keep_output=harness.keeps_output)
        # 2. Run each batch: the reference, and all variants by turns.
        for number, batch in enumerate(batches):
            expected: Mapping[str, pa.Table] = {}
            if reference is not None:
                started = perf_counter()
                for run in runs:
                    if run.failure is None:
                        run.part_from(reference, folder)
                reference.execute(batch.tables)
                expected = reference.outputs()
                report(ComparedBatch(number, "", perf_counter() - started))
            # In another order each time, so that no one always comes first, or after another.
            turn = number % len(runs)
            for run in [*runs[turn:], *runs[:turn]]:
                if run.failure is None:
                    started = perf_counter()
                    run.execute(batch, expected)
                    report(ComparedBatch(number, run.name, perf_counter() - started))
            _go_on(runs)
        # 3. Compare the results of all keys, and build the outcome of each variant.
        outcomes = [run.outcome(reference) for run in runs if run.failure is None]
    _go_on(runs)
    return Comparison(
        title=title,
        topology=str(topology),
        where=f"{harness.where}, Penstock {__version__}, {os.cpu_count()} cores",
        nodes=harness.nodes,
        imagined=harness.imagined,
        warm_up=warm_up,
        variants=tuple(outcome for outcome in outcomes if outcome is not None),
        failed=FrozenMap({run.name: run.reason for run in runs if run.failure is not None}),
        hosts=harness.hosts,
    )


class VariantRun:
    """One variant as it runs.

    Args:
        harness: the setting of the comparison.
        topology: the job.
        name: of the variant.
        optimizer: the strategy that decides; None for no decisions.

    Attributes:
        name: of the variant.
        failure: the error that ended it; None if none did.
    """

    def __init__(
        self, harness: Harness, topology: Topology, name: str, optimizer: Optimizer | None
    ) -> None:
        self.name = name
        self._topology = topology
        self._computes = harness.computes
        self._strategy = "keys by hash" if optimizer is None else repr(optimizer)
        observes = () if optimizer is None else optimizer.observes
        self._observes = tuple(sorted(probe.value for probe in observes))
        with _telling(name, "before the first batch"):
            self._trial = harness.begin(name, optimizer)
        self._ran = 0
        self._difference: Difference | None = None
        self._reference: Reference | None = None  # of its own, once it cuts batches
        self.failure: Exception | None = None

    @property
    def reason(self) -> str:
        """Why it failed, and when, in one line; empty if it did not."""
        if self.failure is None:
            return ""
        return " ".join([said(self.failure), *getattr(self.failure, "__notes__", ())])

    def part_from(self, reference: Reference, folder: str) -> None:
        """Get a reference of its own if batches are cut from now on: it cuts them as well.

        Output that comes once a batch, such as changes, depends on how batches are cut.
        """
        with self._failing("as the sequential reference was copied for it"):
            if self._reference is None and self._trial.cuts:
                self._reference = reference.copied(f"{folder}/of {quote(self.name, safe='')}")

    def execute(self, batch: Recording, expected: Mapping[str, pa.Table]) -> None:
        """Run the next batch, and compare the job's output.

        Args:
            batch: the batch.
            expected: the reference's output, by operator.
        """
        number = self._ran
        self._ran += 1
        with self._failing(f"in batch {number}"):
            pieces = self._trial.execute(batch)
            if self._reference is not None:
                expected = self._reference.outputs_of(pieces)
            found = self._trial.outputs() if self._computes else {}
            for name in sorted({*expected, *found}):
                self._difference = self._difference or self._output_difference(
                    name, number, expected.get(name), found.get(name)
                )

    def outcome(self, reference: Reference | None) -> Outcome | None:
        """Compare the results of all keys, and return the outcome if the variant has not failed.

        Args:
            reference: the expected results; None where nothing is computed.
        """
        found: Outcome | None = None
        with self._failing("as its results were read"):
            if reference is not None:
                self._compare_state(self._reference or reference)
            executed = self._trial.executed()
            batches = [
                replace(RunSummary.of_batches(self._topology, pieces), first=number)
                for number, pieces in enumerate(executed)
            ]
            begun = list(accumulate((len(pieces) for pieces in executed), initial=0))
            found = Outcome(
                self.name,
                self._strategy[:_SHOWN],
                tuple(batches),
                tuple(_decided(decision, begun) for decision in self._trial.decisions),
                self._difference,
                self._observes,
                checked=reference is not None,
                epochs=tuple(
                    replace(epoch, after=_batch_of(epoch.after, begun))
                    for epoch in self._trial.epochs
                ),
            )
        return found  # noqa: RET504  # none if it has failed

    def _output_difference(
        self, name: str, number: int, expected: pa.Table | None, found: pa.Table | None
    ) -> Difference | None:
        operator = self._topology.operator(name)
        if operator.partial and fold_of(self._topology, name).emit is Emit.CHANGES:
            return parts_difference(name, number, operator.key_columns, expected, found)
        return output_difference(name, number, expected, found)

    def _compare_state(self, reference: Reference) -> None:
        for operator in self._topology.operators:
            if operator.keyed and self._difference is None:
                found = self._trial.state(operator.name)
                self._difference = state_difference(
                    operator.name, operator.key_columns, reference.results(operator.name), found
                )

    @contextmanager
    def _failing(self, when: str) -> Iterator[None]:
        """Note an error that ends this variant, and no other."""
        try:
            with _telling(self.name, when):
                yield
        except Exception as error:  # noqa: BLE001  # `_go_on` raises it if all have failed
            self.failure = error


def _decided(decision: Decision, begun: Sequence[int]) -> DecisionFacts:
    """Return the kept parts of a decision, with its batch instead of the piece."""
    return replace(DecisionFacts.of(decision), after=_batch_of(decision.after, begun))


def _batch_of(piece: int, begun: Sequence[int]) -> int:
    """Return the batch that a piece is of, given the first piece of each; -1 before the first."""
    return bisect_right(begun, piece) - 1


@contextmanager
def _telling(name: str, when: str) -> Iterator[None]:
    """Add the variant's name to any error."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in variant {name!r}, {when}")
        raise


def _go_on(runs: Sequence[VariantRun]) -> None:
    """Go on if a variant has not failed; else raise the error of the first."""
    failures = [run.failure for run in runs if run.failure is not None]
    if len(failures) == len(runs):
        raise failures[0]


def _ignored(_: ComparedBatch) -> None:
    """Report nothing."""


def check_variants(variants: Any, warm_up: int) -> None:
    """Refuse variants that cannot be compared, before anything runs."""
    whole("warm_up", warm_up, at_least=0)
    if not variants or not isinstance(variants, Mapping):
        raise InvalidValueError(
            f"variants={variants!r} has nothing to compare; give a dict such as "
            '{"hash": None, "locality": Locality()}'
        )
    for name, optimizer in variants.items():
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"{name!r} does not name a variant; use a text")
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise InvalidValueError(
                f"variant {name!r} is {optimizer!r}, not an Optimizer; make one, such as "
                "Locality(), or give None for keys by hash"
            )
