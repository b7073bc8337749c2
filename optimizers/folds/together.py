"""Several folds over the same keys, in one pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError, InvalidValueError
from optimizers.folds.describe import in_line
from optimizers.folds.fold import Emit, Fold, check_parts


@dataclass(frozen=True, init=False, repr=False)
class Together(Fold):
    """Several folds over the same keys in one pass, each under a name of its own.

    The result of a fold with one result gets the fold's name; if it has several, each is called by
    the fold's name, ``_`` and its own.

    >>> from optimizers.folds import Count, Sum
    >>> orders = pa.table({"user": ["ann", "bob", "ann"], "amount": [3, 5, 4]})
    >>> Together(seen=Count(), spent=Sum("amount"))(orders, "user").to_pydict()
    {'user': ['ann', 'bob'], 'seen': [2, 1], 'spent': [7, 5]}

    Attributes:
        folds: the names with their folds, in the order of their results.
    """

    folds: tuple[tuple[str, Fold], ...]

    def __init__(
        self,
        mapping: Mapping[str, Fold] | None = None,
        /,
        *,
        emit: Emit = Emit.CHANGES,
        **named: Fold,
    ) -> None:
        if not isinstance(mapping, Mapping | None):
            raise InvalidValueError(
                f"Together({in_line(mapping)}): its folds have no names; name each: "
                "Together(seen=Count())"
            )
        folds = (*(mapping or {}).items(), *named.items())
        object.__setattr__(self, "folds", folds)
        object.__setattr__(self, "emit", emit)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.folds:
            raise InvalidValueError("Together() has no folds; name at least one: seen=Count()")
        given: tuple[tuple[Any, Any], ...] = self.folds
        names = [name for name, _ in given]
        texts = [name for name in names if isinstance(name, str)]
        for name, fold in given:
            if not isinstance(name, str) or not name or "." in name or texts.count(name) > 1:
                raise InvalidValueError(
                    f"{in_line(name)} does not name a fold; give each a text of its own, without "
                    "dots"
                )
            if not isinstance(fold, Fold):
                raise InvalidValueError(f"{name}={in_line(fold)} is not a fold, such as Count()")
            if fold.alone:
                raise InvalidValueError(
                    f"{name}={fold!r} cannot share keys with other folds; give it an operator of "
                    "its own"
                )
            if fold.emit is not Emit.CHANGES:
                raise InvalidValueError(
                    f"{name}={fold!r} cannot say what is sent on, as several folds are together; "
                    "set emit on Together"
                )
        object.__setattr__(self, "even", all(fold.even for _, fold in given))

    def __repr__(self) -> str:
        """Return its text, the same in every process."""
        words = [f"{name}={fold!r}" for name, fold in self.folds]
        if self.emit is not Emit.CHANGES:
            words.append(f"emit=Emit.{self.emit.name}")
        return f"Together({', '.join(words)})"

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the columns of all folds, each with its fold's name before it."""
        return self._named([fold.state(tuples) for _, fold in self.folds])

    def given_types(self, tuples: pa.Schema) -> pa.Schema:
        """Return the same columns in the types of the tuples."""
        return self._named([fold.given_types(tuples) for _, fold in self.folds])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Let each fold take in the tuples."""
        numbers = self.checked(tuples, keys, before)
        parts = [fold.absorb(tuples, numbers, part) for fold, part in self._parts(before)]
        return _beside(parts, before.schema)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Let each fold merge what it keeps."""
        check_parts(one, other)
        both = zip(self._parts(one), self._parts(other), strict=True)
        return _beside([fold.merge(mine, theirs) for (fold, mine), (_, theirs) in both], one.schema)

    def results(self, state: pa.Table) -> pa.Table:
        """Return the results of all folds."""
        names: list[str] = []
        columns: list[pa.ChunkedArray] = []
        for (name, _), (fold, part) in zip(self.folds, self._parts(state), strict=True):
            results = fold.results(part)
            many = results.num_columns > 1
            names += [f"{name}_{own}" if many else name for own in results.column_names]
            columns += results.columns
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise FoldError(f"{self!r} has two results called {twice[0]!r}; name its folds apart")
        return pa.table(columns, names=names)

    def _named(self, schemas: list[pa.Schema]) -> pa.Schema:
        """Return the columns of each fold with its name before them."""
        return pa.schema(
            [
                (f"{name}.{kept.name}", kept.type)
                for (name, _), schema in zip(self.folds, schemas, strict=True)
                for kept in schema
            ]
        )

    def _parts(self, state: pa.Table) -> Iterator[tuple[Fold, pa.Table]]:
        """Return each fold with its own columns of the state, under its own names."""
        for name, fold in self.folds:
            prefix = f"{name}."
            mine = [column for column in state.column_names if column.startswith(prefix)]
            yield fold, state.select(mine).rename_columns([c.removeprefix(prefix) for c in mine])


def _beside(parts: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return columns of several tables as one table, under the names of this schema."""
    return pa.table([column for part in parts for column in part.columns], schema=schema)
