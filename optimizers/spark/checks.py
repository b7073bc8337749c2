"""Checks of the engine's arguments, before anything is begun."""

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, TimestampType, YearMonthIntervalType

from grouping.grouping import Grouping
from grouping.key_batch import KeyBatch
from optimizers.cluster import Cluster
from optimizers.control.checking import check_kind
from optimizers.control.provisioning import Provisioner
from optimizers.errors import InvalidKeyError, InvalidValueError, UnknownNameError
from optimizers.optimizer import Optimizer
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings
from optimizers.spark.host_properties import Hosts, checked_hosts
from optimizers.spark.sized import Sized
from optimizers.topology import Topology

_LOG = logging.getLogger(__name__)

_MANY = 64  # instances for a core, above which a warning is logged

_CONNECT = "pyspark.sql.connect"
_TRIGGERS = ("processingTime", "once", "continuous", "availableNow", "realTime")


def check_session(session: Any) -> None:
    """Refuse anything but a session that can reach executors, as Spark Connect's cannot."""
    if _is_connect(session):
        raise InvalidValueError(
            "spark is a session of Spark Connect, which cannot bring functions of record batches "
            "to executors as Penstock needs; give a session that is made in the driver"
        )
    if not isinstance(session, SparkSession):
        raise InvalidValueError(
            f"spark={_shown(session)} is not a session; give SparkSession.builder.getOrCreate(), "
            "or leave it out"
        )


def check_running(session: SparkSession) -> None:
    """Refuse a session that was stopped."""
    if session.sparkContext._jsc is None:  # noqa: SLF001  # PySpark has no other way
        raise InvalidValueError(
            "the session of Spark was stopped; make another by SparkSession.builder.getOrCreate(), "
            "read the rows by it, and give it to the engine"
        )


def check_checkpoint(folder: Any) -> str | Location:
    """Return the folder of a checkpoint: as text, or unchanged if it is a location."""
    if isinstance(folder, Location):
        return folder
    is_path = isinstance(folder, str | os.PathLike) and folder != ""
    if not is_path or isinstance(os.fspath(folder), bytes):
        raise InvalidValueError(
            f"checkpoint={_shown(folder)} is not a folder; give its path, or its URI"
        )
    # A path is a folder here, also one that would read like a URI.
    return folder if isinstance(folder, str) else os.path.abspath(folder)  # noqa: PTH100


def check_cluster(cluster: Any) -> None:
    """Refuse anything but a cluster."""
    if not isinstance(cluster, Cluster):
        raise InvalidValueError(
            f"cluster={_shown(cluster)} is not a Cluster; make one, such as Cluster.uniform(4), "
            "or leave it out"
        )


def check_hosts(hosts: Any, cluster: Cluster | None) -> Hosts:
    """Return what is said of hosts; refuse what means nothing, or would not be seen."""
    found = checked_hosts(hosts)
    if cluster is not None:
        raise InvalidValueError(
            "hosts and cluster are both given, and a cluster that is given says itself what its "
            "nodes have; leave the cluster out, for the hosts that are there"
        )
    return found


def check_provisioner(provisioner: Any, cluster: Cluster | None) -> None:
    """Refuse a provisioner that cannot acquire nodes, or whose nodes the engine would not see."""
    if not isinstance(provisioner, Provisioner) or isinstance(provisioner, type):
        raise InvalidValueError(
            f"provisioner={_shown(provisioner)} has no methods acquire(count, total) and "
            "release(nodes); give SparkExecutors(), or leave it out"
        )
    if cluster is not None:
        raise InvalidValueError(
            "provisioner and cluster are both given, and a cluster that is given stays as it is; "
            "leave one of them out, and say by hosts= what hosts cannot tell of themselves"
        )


def check_settings(settings: Any) -> None:
    """Refuse anything but settings."""
    if not isinstance(settings, Settings):
        raise InvalidValueError(
            f"settings={_shown(settings)} are not Settings; make some, such as "
            "Settings(keep_output=False), or leave them out"
        )
    for name, said in (("observes", "the optimizer"), ("sharing", "the engine")):
        given, usual = getattr(settings, name), getattr(Settings(), name)
        if given != usual:
            raise InvalidValueError(
                f"settings: {name}={_shown(given)} is said by {said}; leave {name} out"
            )


def check_job(topology: Any, optimizer: Any) -> None:
    """Refuse anything but a job and a strategy."""
    if not isinstance(topology, Topology):
        raise InvalidValueError(
            f"topology={_shown(topology)} is not a Topology; begin one by Topology.source(name)"
        )
    if optimizer is None or isinstance(optimizer, Optimizer):
        return
    if isinstance(optimizer, type):
        remedy = f"make one: {optimizer.__name__}()"
    elif isinstance(optimizer, Mapping):
        remedy = "give one; compare() takes several by name"
    else:
        remedy = "give one, such as Locality(), or None for keys by hash"
    raise InvalidValueError(f"optimizer={_shown(optimizer)} is not an Optimizer; {remedy}")


def warn_of_many_instances(topology: Topology, cores: int) -> None:
    """Log a warning if an operator has far more instances than can work at a time.

    Each is a task of Spark in every batch, and most of the time goes into starting them.
    """
    for operator in topology.operators:
        if operator.parallelism > _MANY * max(cores, 1):
            _LOG.warning(
                "operator %r: parallelism=%d is more than %d times the %d cores that Spark has, "
                "and each instance is a task in every batch; a few times the cores is enough",
                operator.name,
                operator.parallelism,
                _MANY,
                cores,
            )


def check_trigger(trigger: Any) -> None:
    """Refuse a trigger that `DataStreamWriter.trigger` cannot take."""
    if not isinstance(trigger, Mapping) or not all(name in _TRIGGERS for name in trigger):
        raise InvalidValueError(
            f"trigger={_shown(trigger)} is not a trigger; give a dict with one of "
            f"{', '.join(_TRIGGERS)}, "
            'such as {"processingTime": "10 seconds"}'
        )


def listed(batches: Any) -> Iterable[Any]:
    """Return the batches of a bounded run; a single one needs no list around it."""
    if isinstance(batches, DataFrame | Mapping):
        return [batches]
    alone = isinstance(batches, str | bytes | Column) or _is_table(batches)
    if alone or not isinstance(batches, Iterable):
        check_frame("batches", batches)
    return batches  # type: ignore[no-any-return]


def check_bounded(rows: Any, what: str, remedy: str) -> None:
    """Refuse anything but a bounded DataFrame.

    Args:
        rows: what was given.
        what: for what, as a beginning of the message.
        remedy: what to do with a stream.
    """
    check_frame(what, rows)
    if rows.isStreaming:
        raise InvalidValueError(f"{what} is a stream, which has no end; {remedy}")


def check_streams(streams: Mapping[str, Any]) -> None:
    """Refuse anything but a stream, or a `Sized` that makes one."""
    for source, rows in streams.items():
        if isinstance(rows, Sized):
            continue
        what = f"what source {source!r} is given"
        check_frame(what, rows)
        if not rows.isStreaming:
            raise InvalidValueError(
                f"{what} is bounded, and no stream; use run() for it, or read it by "
                "spark.readStream"
            )
        check_types(what, rows)


def check_batch(sources: Mapping[str, Any]) -> None:
    """Refuse anything but bounded rows of a batch."""
    for source, rows in sources.items():
        what = f"what source {source!r} is given"
        check_bounded(rows, what, "use start() for it")
        check_types(what, rows)


def check_types(what: str, rows: DataFrame) -> None:
    """Refuse a column of a type that Python has no arrays for."""
    for column in rows.schema:
        if isinstance(column.dataType, YearMonthIntervalType):
            raise InvalidValueError(
                f"{what}: column {column.name!r} is of type {column.dataType.simpleString()}, "
                "which pyarrow cannot read; cast it to string, or extract its years and months "
                "as ints"
            )


def check_frame(what: str, rows: Any) -> None:
    """Refuse anything but a DataFrame of Spark whose column names Spark's functions understand."""
    if _is_connect(rows):
        raise InvalidValueError(
            f"{what} is a DataFrame of Spark Connect, which cannot bring functions of record "
            "batches to executors as Penstock needs; give one of a session made in the driver"
        )
    if not isinstance(rows, DataFrame):
        remedy = "give a DataFrame of Spark"
        if _is_table(rows):
            remedy += f", such as spark.createDataFrame({_constructible(rows)})"
        raise InvalidValueError(f"{what} is {_a(rows)}, not a DataFrame; {remedy}")
    check_names(what, rows, rows.columns)


def check_names(what: str, rows: DataFrame, columns: Iterable[str]) -> None:
    """Refuse names of columns that Spark takes for fields of others, or for several columns."""
    exactly = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    known = [name if exactly else name.lower() for name in rows.columns]
    for name in columns:
        if "." in name or "`" in name:
            raise InvalidValueError(
                f"{what}: column {name!r} has a {'.' if '.' in name else '`'!r} in its name, "
                "which Spark reads as something else; rename it, with toDF()"
            )
        times = known.count(name if exactly else name.lower())
        if times > 1:
            raise InvalidValueError(
                f"{what}: {times} columns are called {name!r}; rename all but one, with toDF()"
            )


def key_columns(rows: DataFrame, key: Any) -> tuple[str, ...]:
    """Return the columns of a key, after checking that they exist and can be keys.

    Raises:
        InvalidValueError: the key names no column.
        UnknownNameError: there is no such column.
        InvalidKeyError: a column is of a type that keys cannot have.
    """
    columns = (key,) if isinstance(key, str) else key
    if columns is None:
        return ()
    if not (isinstance(columns, tuple | list) and all(isinstance(name, str) for name in columns)):
        raise InvalidValueError(
            f"key={_shown(key)} names no column; give the name of one, such as 'user', or a tuple "
            "of names"
        )
    if len(set(columns)) < len(columns) or not columns:
        raise InvalidValueError(f"key={key!r} must name one column or several; name each once")
    for name in columns:
        if name not in rows.columns:
            raise UnknownNameError.among("column", name, rows.columns)
        check_key_type(name, rows.schema[name].dataType)
    return tuple(columns)


def check_key_type(name: str, kind: DataType) -> None:
    """Refuse a column whose values cannot be keys."""
    try:
        KeyBatch.read(pa.chunked_array([], _arrow_type(kind)))
    except (InvalidKeyError, PySparkTypeError) as error:
        raise InvalidKeyError(
            f"key column {name!r} is of type {kind.simpleString()}: {error}"
        ) from None


def check_table(
    rows: DataFrame, columns: tuple[str, ...], grouping: Grouping, partitions: int
) -> None:
    """Refuse a grouping that was made for keys of another kind than the columns hold."""
    types = [str(_arrow_type(rows.schema[name].dataType)) for name in columns]
    try:
        check_kind(grouping, partitions, types)
    except InvalidKeyError as error:
        raise InvalidKeyError(
            f"key={columns if len(columns) > 1 else columns[0]!r} is of type {', '.join(types)}, "
            f"and {error}"
        ) from None


def _arrow_type(kind: DataType) -> pa.DataType:
    """Return the type of a column in functions of record batches."""
    if isinstance(kind, TimestampType):  # the session's zone does not matter to a key
        return pa.timestamp("us", "UTC")
    return to_arrow_type(kind)


def _is_connect(value: Any) -> bool:
    return type(value).__module__.startswith(_CONNECT)


def _is_table(value: Any) -> bool:
    """Return whether it is a table of another library."""
    return type(value).__module__.partition(".")[0] in {"pandas", "polars", "pyarrow"}


def _constructible(rows: Any) -> str:
    """Return how to convert a table for `createDataFrame`, as code."""
    return "rows.to_pandas()" if type(rows).__module__.startswith("polars") else "rows"


def _a(value: Any) -> str:
    """Return the kind of a value, in words."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return _shown(value)
    return f"a {kind.__name__} of {kind.__module__.partition('.')[0]}"


def _shown(value: Any, longest: int = 80) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
