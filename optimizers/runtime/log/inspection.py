"""Reading a checkpoint: how much each instance keeps, and the state as a table."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from optimizers.errors import CheckpointError, StateError, UnknownNameError
from optimizers.runtime.log.job_identity import Identity
from optimizers.runtime.log.records import Commit
from optimizers.runtime.state.file import FOLDER, read_states
from optimizers.runtime.state.keys import key_of, repeats
from optimizers.runtime.state.table import PLACE, VALUE, key_names, places_of
from optimizers.runtime.storage.location import Location


@dataclass(frozen=True, slots=True)
class InstanceState:
    """The files of one instance, by the log.

    Attributes:
        operator: the operator.
        instance: which of its instances.
        rows: how many rows its files have. A key that changed since all were written has several.
        bytes: how large its files are.
        files: how many there are.
    """

    operator: str
    instance: int
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Description:
    """A description of a checkpoint.

    Attributes:
        batches: the batches whose commits are kept, oldest first.
        commit: the newest of them; None before the first.
        instances: the files of each instance.
    """

    batches: tuple[int, ...]
    commit: Commit | None
    instances: tuple[InstanceState, ...]


def described(batches: tuple[int, ...], commit: Commit | None) -> Description:
    """Describe a checkpoint by its newest commit, without reading any state."""
    instances = [] if commit is None else commit.instances()
    return Description(
        batches,
        commit,
        tuple(
            InstanceState(
                operator,
                instance,
                sum(file.rows for file in files),
                sum(file.bytes for file in files),
                len(files),
            )
            for operator, instance, files in instances
        ),
    )


def operator_state(
    location: Location, identity: Identity, commit: Commit, operator: str
) -> pa.Table:
    """Return the state that all instances of an operator had at a commit.

    One row a key, in the order of their places: the columns of the key under their own names,
    then what the operator keeps. Where the operator is partial, a key has a row for each
    instance that holds a part of it. A value that is called like a column of the key keeps the
    ``value_`` before its name.

    Raises:
        UnknownNameError: no operator of this name keeps state.
        StateError: two instances have the same key.
    """
    keyed = {name: known.key for name, known in identity.operators.items() if known.key}
    if operator not in list(keyed):  # which takes a value of any type
        raise UnknownNameError.among("operator with a key", operator, keyed)
    names = keyed[operator]
    tables = [read_states(location, files) for files in commit.state.get(operator, ()) if files]
    if not tables:
        return pa.table({name: pa.nulls(0) for name in names})
    rows = _joined(operator, tables)
    if not identity.operators[operator].partial:
        _check_owners(operator, rows)
    if len(key_names(rows)) != len(names):
        raise StateError(
            f"the state of operator {operator!r} has key columns {key_names(rows)}, where its key "
            f"is {', '.join(names)}; begin with a new checkpoint"
        )
    called = dict(zip(key_names(rows), names, strict=True))
    for name in rows.column_names:
        if name.startswith(VALUE):
            plain = name.removeprefix(VALUE)
            called[name] = name if plain in names else plain
    return rows.select(list(called)).rename_columns(list(called.values()))


def _joined(operator: str, tables: list[pa.Table]) -> pa.Table:
    """Return the rows of all tables in the order of places, from any of them."""
    try:
        rows = pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise StateError(
            f"instances of operator {operator!r} keep state of different columns: {error}; begin "
            "with a new checkpoint"
        ) from error
    order = np.argsort(places_of(rows), kind="stable")
    return rows.take(pa.array(order)).combine_chunks()


def _check_owners(operator: str, rows: pa.Table) -> None:
    twice = np.flatnonzero(repeats(rows))
    if len(twice):
        row = int(twice[0])
        raise StateError(
            f"two instances of operator {operator!r} keep state of key {key_of(rows, row)} at "
            f"place {rows.column(PLACE)[row]}, which only one may own; go back to a copy of the "
            "checkpoint that was made before"
        )


def check_files(location: Location, commit: Commit) -> None:
    """Refuse a commit that refers to files of state that are missing or were cut."""
    sizes = location.list(FOLDER)
    for operator, instance, files in commit.instances():
        for file in files:
            if sizes.get(file.path) != file.bytes:
                found = f"has {sizes[file.path]} bytes" if file.path in sizes else "is missing"
                raise CheckpointError(
                    f"{location.path_of(file.path)} {found}, where there should be {file.bytes} "
                    f"bytes of state of instance {instance} of operator {operator!r} at batch "
                    f"{commit.batch}; bring it back from a copy, or begin with a new checkpoint"
                )
