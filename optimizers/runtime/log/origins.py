"""The origins of batches: the input of each commit, and how far each input has come.

A job may be fed by bounded batches, by a stream, and by both in turn. Its batches have numbers of
their own. So that no row is skipped and none counts twice, a commit says which bounded batches are
done by then, and up to which of its own batches each query of Spark has come.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optimizers.documents import Record
from optimizers.errors import CheckpointError, InvalidValueError
from sketches.checks import whole
from sketches.values import FrozenMap, listed, named


@dataclass(frozen=True, slots=True)
class Bounded:
    """A batch of bounded data, or a piece of one that is cut.

    Attributes:
        name: its name; None if it is known only by its place among the others.
        done: how many rows of each source are done with this piece, if rows are left after it.
    """

    name: str | None = None
    done: Mapping[str, int] = field(default_factory=FrozenMap)

    def __post_init__(self) -> None:
        if self.name is not None:
            _check_name("name of a batch", self.name)
        done = named("done", self.done, object)
        checked = {name: whole(f"done[{name!r}]", rows, at_least=0) for name, rows in done.items()}
        object.__setattr__(self, "done", FrozenMap(checked))

    def __str__(self) -> str:
        return "a batch" if self.name is None else f"batch {self.name!r}"


@dataclass(frozen=True, slots=True)
class OfStream:
    """A batch of a query of Spark.

    Attributes:
        query: the query's id, which it keeps when it is begun again on the same checkpoint.
        number: Spark's number of the batch.
        offsets: how far each source of the query was read, by Spark's own record.
    """

    query: str
    number: int
    offsets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name("query", self.query)
        whole("number", self.number, at_least=0)
        offsets = listed("offsets", self.offsets)
        for offset in offsets:
            if not isinstance(offset, str):
                raise InvalidValueError(f"offsets holds {offset!r}; give the text of each source")
        object.__setattr__(self, "offsets", offsets)

    def __str__(self) -> str:
        return f"batch {self.number} of stream {self.query}"


Origin = Bounded | OfStream


@dataclass(frozen=True)
class Progress:
    """How far each input of a job has come.

    >>> done = Progress().after(Bounded("monday")).after(OfStream("q", 0))
    >>> done.bounded, done.names, done.is_next(OfStream("q", 1)), done.is_next(OfStream("q", 0))
    (1, ('monday',), True, False)

    Attributes:
        bounded: how many bounded batches are done.
        names: those of them that have a name, in the order in which they were done.
        streams: the last batch of each query that has fed the job, by the query's id.
        begun: the last piece of a bounded batch that has rows left; None where there is none.
    """

    bounded: int = 0
    names: tuple[str, ...] = ()
    streams: Mapping[str, OfStream] = field(default_factory=FrozenMap)
    begun: Bounded | None = None

    def __post_init__(self) -> None:
        names = listed("names", self.names)
        whole("bounded", self.bounded, at_least=len(names))
        for name in names:
            _check_name("name of a batch", name)
        if len(set(names)) < len(names):
            raise InvalidValueError(f"names={names!r} has a name twice; a batch is done once")
        object.__setattr__(self, "names", names)
        for query, last in named("streams", self.streams, object).items():
            if not isinstance(last, OfStream) or last.query != query:
                raise InvalidValueError(f"streams[{query!r}]={last!r} is not a batch of this query")
        object.__setattr__(self, "streams", FrozenMap(self.streams))

    def after(self, origin: Origin) -> "Progress":
        """Return the progress after a batch."""
        if isinstance(origin, OfStream):
            return replace(self, streams={**self.streams, origin.query: origin})
        if origin.done:
            return replace(self, begun=origin)
        names = self.names if origin.name is None else (*self.names, origin.name)
        return replace(self, bounded=self.bounded + 1, names=names, begun=None)

    def check_query(self, query: str | None, *, append: bool) -> None:
        """Refuse an unknown stream, on a job that another stream has fed.

        Args:
            query: the query's id; None for one that is only to begin.
            append: whether it is further input, on purpose.

        Raises:
            CheckpointError: it is such a stream, and ``append`` is not given.
        """
        if append or not self.streams or query in self.streams:
            return
        known = ", ".join(f"{last.number + 1} batches of {name}" for name, last in _in(self))
        raise CheckpointError(
            f"the job has been fed by a stream already ({known}), and this is another one "
            f"({query or 'new'}): what Spark knew of that one, in the folder spark/, is gone, and "
            "rows that it had read would count twice; bring spark/ back from a copy, or give "
            "append=True if all rows of the new stream are to be added to the old ones"
        )

    def is_next(self, batch: OfStream) -> bool:
        """Return whether a batch of a stream is to be run; False if it is the last one, again.

        Spark replays the last batch, and no other, if it was stopped before it could record that it
        was done.

        Raises:
            CheckpointError: batches are missing, or come again that should not.
        """
        last = self.streams.get(batch.query)
        following = 0 if last is None else last.number + 1
        if batch.number == following:
            return True
        if batch.number > following:
            raise CheckpointError(
                f"{batch} has arrived, and batch {following} of it is next: rows of batches "
                f"{following} to {batch.number - 1} would be lost; what Spark knows, in the folder "
                "spark/, is newer than the state: bring both back from one copy, or begin with a "
                "new checkpoint"
            )
        if last is None or batch.number < last.number:
            raise CheckpointError(
                f"{batch} has arrived, and batch {following} of it is next: rows of batches "
                f"{batch.number} to {following - 1} would count twice; what Spark knows, in the "
                "folder spark/, is older than the state: bring both back from one copy, or begin "
                "with a new checkpoint"
            )
        if batch.offsets != last.offsets:
            raise CheckpointError(
                f"{batch} has arrived again, and goes up to {_shown(batch.offsets)}, where it went "
                f"up to {_shown(last.offsets)} when it was done: these are other rows, and would "
                "be skipped; bring the folder spark/ back from a copy, or begin with a new "
                "checkpoint"
            )
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types."""
        found: dict[str, Any] = {
            "bounded": self.bounded,
            "names": list(self.names),
            "streams": {
                query: {"number": last.number, "offsets": list(last.offsets)}
                for query, last in _in(self)
            },
        }
        return found if self.begun is None else {**found, "begun": origin_to_dict(self.begun)}

    @classmethod
    def from_value(cls, value: object, where: str) -> "Progress":
        """Build it from what `to_dict` returned."""
        return Record(value, where).into(cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Progress":
        streams = {
            query: last.into(
                lambda fields, query=query: OfStream(  # type: ignore[misc]
                    query, fields.take("number", int), fields.strings("offsets")
                )
            )
            for query, last in record.mapping("streams", Record).items()
        }
        begun = record.optional("begun", dict)
        return cls(
            record.take("bounded", int),
            record.strings("names"),
            streams,
            None if begun is None else Record(begun, "begun").into(_bounded_from),
        )


def origin_to_dict(origin: Origin) -> dict[str, Any]:
    """Return where a batch comes from as JSON types; of a stream, `Progress` knows the rest."""
    if isinstance(origin, OfStream):
        return {"query": origin.query}
    return {"name": origin.name, **({"done": dict(origin.done)} if origin.done else {})}


def origin_from(value: object, where: str, progress: Progress) -> Origin:
    """Build it from what `origin_to_dict` returned, and the progress with that batch.

    Raises:
        CorruptDataError: it is not such a value.
        InvalidValueError: the progress does not know of it.
    """

    def build(record: Record) -> Origin:
        query = record.optional("query", str)
        if query is None:
            return _bounded_from(record)
        if query not in progress.streams:
            raise InvalidValueError(f"stream {query!r} has no batch; give its progress")
        return progress.streams[query]

    return Record(value, where).into(build)


def _bounded_from(record: Record) -> Bounded:
    return Bounded(record.optional("name", str), record.take("done", dict, {}))


def _in(progress: Progress) -> list[tuple[str, OfStream]]:
    return sorted(progress.streams.items())


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidValueError(f"{what} {name!r} is not a text; give one that is not empty")


def _shown(offsets: tuple[str, ...], limit: int = 80) -> str:
    text = "; ".join(offsets)
    return text if len(text) <= limit else text[:limit] + "…"
