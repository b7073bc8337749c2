"""Spark's own file systems, used from the driver: their names of folders, and their promises.

On HDFS a file gets its name by a rename that the name node refuses if the name is taken. Not all
other file systems of Hadoop refuse: some first look and then rename, so that two drivers could both
succeed. So only those are used here that are known to refuse.
"""

import os
from collections.abc import Collection
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from optimizers.runtime.storage.disk import Content, NameTakenError, NoFenceError, beside
from optimizers.runtime.storage.location import Location
from optimizers.runtime.storage.places import StorageKind

ATOMIC = frozenset({"hdfs"})
"""Schemes of file systems whose rename refuses a taken name, as one operation."""

_S3_SCHEMES = frozenset({"s3", "s3n"})  # beside s3a, as Hadoop calls its connector
_TAKEN = "org.apache.hadoop.fs.FileAlreadyExistsException"
_MISSING = "java.io.FileNotFoundException"


def location_in(session: SparkSession, checkpoint: str | os.PathLike[str] | Location) -> Location:
    """Return the location of a checkpoint for a driver of this session.

    Args:
        session: the session.
        checkpoint: a path, a URI, or the location itself, where it has a name for Spark of its own.
    """
    given = Location.of(checkpoint)
    place = given.place
    if given.spark == place.spark and place.kind is StorageKind.S3:
        scheme = _s3_scheme(session, place.scheme)
        given = given.called(scheme + given.spark.removeprefix("s3a"))
    return given.guarded(HadoopGuard(session))


def folder_in(session: SparkSession, path: str) -> str:
    """Return a folder by the name that Spark knows it by: S3 is s3a to most sessions."""
    scheme, separator, rest = path.partition("://")
    if not separator or scheme not in _S3_SCHEMES:
        return path
    return f"{_s3_scheme(session, scheme)}://{rest}"


def _s3_scheme(session: SparkSession, scheme: str) -> str:
    """Return the scheme of a session's connector for S3.

    Spark has s3a by its connector. Distributions that have a connector of their own for s3 (EMR) or
    s3n say so in their settings, and want it used.
    """
    return scheme if _configuration(session).get(f"fs.{scheme}.impl") else "s3a"


class HadoopGuard:
    """Writes files by Hadoop's file systems, where those promise more than pyarrow.

    Args:
        session: in whose driver it is done.
        atomic: schemes of file systems whose rename is trusted.
    """

    def __init__(self, session: SparkSession, atomic: Collection[str] = ATOMIC) -> None:
        self._session = session
        self._atomic = atomic

    def create(self, path: str, content: Content) -> None:
        """Create a file, whole, unless there is one of this name.

        Raises:
            NameTakenError: there is.
            NoFenceError: the file system of the path does not promise that.
        """
        self._rename_into(path, content, "NONE")

    def replace(self, path: str, content: Content) -> None:
        """Write a file instead of any of this name, so that one of the two is always there.

        Raises:
            NoFenceError: the file system of the path does not promise that.
        """
        self._rename_into(path, content, "OVERWRITE")

    def _rename_into(self, path: str, content: Content, option: str) -> None:
        jvm: Any = self._session._jvm  # noqa: SLF001  # there is no public way to it
        hadoop = jvm.org.apache.hadoop.fs
        wanted, temporary = hadoop.Path(path), hadoop.Path(beside(path))
        try:
            files = wanted.getFileSystem(_configuration(self._session))
            files.mkdirs(wanted.getParent())
            self._check(files.resolvePath(wanted.getParent()).toUri().getScheme(), path)
            sink = files.create(temporary, False)  # noqa: FBT003  # Java has no keywords
            try:
                sink.write(bytes(memoryview(content)))
                sink.hsync()
            finally:
                sink.close()
            self._rename(temporary, wanted, option)
        except Py4JJavaError as error:
            raise _as_python_has_it(error) from error

    def _rename(self, temporary: Any, wanted: Any, option: str) -> None:
        spark: Any = self._session.sparkContext
        options = getattr(spark._jvm.org.apache.hadoop.fs, "Options$Rename")  # noqa: SLF001
        chosen = spark._gateway.new_array(options, 1)  # noqa: SLF001
        chosen[0] = getattr(options, option)
        context = spark._jvm.org.apache.hadoop.fs.FileContext.getFileContext(  # noqa: SLF001
            wanted.toUri(), _configuration(self._session)
        )
        try:
            context.rename(temporary, wanted, chosen)
        except Py4JJavaError as error:
            if _class_of(error) != _TAKEN:
                raise
            # A name node that was asked twice, after a lost answer, says so as well; then the file
            # is no longer where it was.
            if context.util().exists(temporary):
                context.delete(temporary, False)  # noqa: FBT003
                raise NameTakenError(str(wanted)) from error

    def _check(self, scheme: str, path: str) -> None:
        if scheme not in self._atomic:
            raise NoFenceError(
                f"of {scheme}: behind {path} it is not known that Hadoop's rename refuses a taken "
                "name at once"
            )


def _configuration(session: SparkSession) -> Any:
    context: Any = session.sparkContext
    return context._jsc.hadoopConfiguration()  # noqa: SLF001


def _class_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


def _as_python_has_it(error: Py4JJavaError) -> OSError:
    what = str(error.java_exception.getMessage())
    kind = _class_of(error)
    if kind == _MISSING:
        return FileNotFoundError(2, what)
    if kind.endswith("AccessControlException"):
        return PermissionError(13, what)
    return OSError(f"{kind.rpartition('.')[2]}: {what}")
