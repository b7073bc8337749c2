"""A comparison: several optimizers on the same input, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from optimizers.comparing.metrics import overall, section
from optimizers.comparing.narrative import summary
from optimizers.comparing.outcome import Outcome
from optimizers.comparing.table import Section, as_text
from optimizers.comparing.time_section import time_section
from optimizers.documents import Record, read, write
from optimizers.errors import CorruptDataError, InvalidValueError, UnknownNameError
from sketches.values import FrozenMap


@dataclass(frozen=True)
class Comparison:
    """The results of running a job under several optimizers, on the same input.

    The others are compared with the first variant.

    Attributes:
        title: what was run.
        topology: the job, as text.
        where: the engine, in words.
        nodes: the number of nodes.
        imagined: whether the nodes are virtual, all on one machine.
        warm_up: how many batches at the beginning are left out of all figures.
        variants: the outcome of each.
        failed: the variants that an error ended, which have no figures, with the error in a line.
        hosts: the names of the nodes that are real hosts; empty where nodes are virtual.
    """

    title: str
    topology: str
    where: str
    nodes: int
    imagined: bool
    warm_up: int
    variants: tuple[Outcome, ...]
    failed: Mapping[str, str] = field(default_factory=FrozenMap)
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "variants", tuple(self.variants))
        object.__setattr__(self, "failed", FrozenMap(self.failed))
        object.__setattr__(self, "hosts", tuple(self.hosts))
        if not self.variants:
            raise InvalidValueError("a comparison of nothing says nothing; give a variant")
        numbers = [[batch.first for batch in outcome.batches] for outcome in self.variants]
        if any(other != numbers[0] for other in numbers):
            raise InvalidValueError("the variants did not run the same batches; run them again")
        if len(numbers[0]) <= self.warm_up:
            raise InvalidValueError(
                f"{len(numbers[0])} batches are not more than the warm_up={self.warm_up} that are "
                "left out; give more batches, or less warm_up"
            )

    def __getitem__(self, name: str) -> Outcome:
        """Return the outcome of the variant of that name."""
        for outcome in self.variants:
            if outcome.name == name:
                return outcome
        if name in self.failed:
            raise InvalidValueError(f"variant {name!r} failed: {self.failed[name]}")
        raise UnknownNameError.among("variant", name, (known.name for known in self.variants))

    @property
    def correct(self) -> bool:
        """Whether all variants have results, equal to those of the reference."""
        return not self.failed and all(outcome.difference is None for outcome in self.variants)

    @cached_property
    def measured(self) -> range:
        """The batches that count in figures: all but the first few."""
        batches = self.variants[0].batches
        return range(batches[self.warm_up].first, batches[-1].first + 1)

    @cached_property
    def settled(self) -> range:
        """Of these, the batches after each variant that changes its plan has done so once.

        Empty if none changes its plan, or one does so with the last batch only.
        """
        changes = [outcome.first_change for outcome in self.variants]
        known = [batch for batch in changes if batch is not None]
        if not known:
            return range(0)
        return range(max(max(known) + 1, self.measured.start), self.measured.stop)

    def sections(self) -> list[Section]:
        """Return the figures: of all batches, of those under changed plans, and of the whole."""
        measured, settled = self.measured, self.settled
        found = [section(f"batches {_named(measured)}", self.variants, measured)]
        if settled and settled != measured:
            title = f"batches {_named(settled)}, after plans have changed"
            found.append(section(title, self.variants, settled))
        times = time_section(self.variants, settled or measured)
        return [*found, *([] if times is None else [times]), overall(self.variants)]

    def table(self) -> str:
        """Return the figures as a table of text; the best of each line are marked."""
        return as_text([outcome.name for outcome in self.variants], self.sections())

    def summary(self) -> str:
        """Return a few sentences on what the figures show."""
        shown = self.settled or self.measured
        return summary(self.variants, shown, imagined=self.imagined, failed=self.failed)

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.summary()}"

    def to_json(self) -> str:
        """Write the comparison as a JSON document."""
        body = {
            "title": self.title,
            "topology": self.topology,
            "where": self.where,
            "nodes": self.nodes,
            "imagined": self.imagined,
            "hosts": list(self.hosts),
            "warm_up": self.warm_up,
            "variants": [outcome.to_dict() for outcome in self.variants],
        }
        if self.failed:
            body["failed"] = dict(self.failed)
        return write("comparison", body)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Comparison":
        """Read what `to_json` wrote."""
        return read(text, "comparison", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Comparison":
        return cls(
            record.take("title", str),
            record.take("topology", str),
            record.take("where", str),
            record.take("nodes", int),
            record.take("imagined", bool),
            record.take("warm_up", int),
            tuple(record.each("variants", Outcome.from_record)),
            record.mapping("failed", _text),
            record.strings("hosts"),
        )


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise CorruptDataError(f"{where} is {value!r}, where a text is expected")
    return value


def _named(span: range) -> str:
    first, last = span[0], span[-1]
    return str(first) if first == last else f"{first} to {last}"
