"""The place of a checkpoint, read from a path, or from a URI of a known storage.

A place has two names. Spark reaches it by Hadoop's connectors, Penstock by the operating system or
by pyarrow; they spell the same folder differently (``s3a://`` and ``s3://``), and pyarrow takes
options in a URI (``?region=...``) that Spark would take for a part of the path.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import parse_qsl, quote, unquote, urlencode

from optimizers.errors import CheckpointError
from sketches.values import FrozenMap

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_VOLUMES = "/Volumes/"
_HERE = "localhost"  # by RFC 8089, in a URI of a file, as good as no host
_AZURE = "dfs.core.windows.net"  # where accounts are that are in no other cloud, as for pyarrow


class StorageKind(Enum):
    """Kinds of storage, by how they are reached."""

    LOCAL = "a folder that is mounted"
    S3 = "Amazon S3"
    GCS = "Google Cloud Storage"
    AZURE = "Azure Data Lake Storage"
    HADOOP = "HDFS"


KINDS = {
    "file": StorageKind.LOCAL,
    "dbfs": StorageKind.LOCAL,
    "s3": StorageKind.S3,
    "s3a": StorageKind.S3,
    "s3n": StorageKind.S3,
    "gs": StorageKind.GCS,
    "gcs": StorageKind.GCS,
    "abfs": StorageKind.AZURE,
    "abfss": StorageKind.AZURE,
    "hdfs": StorageKind.HADOOP,
    "viewfs": StorageKind.HADOOP,
}
"""The kind of storage of each scheme."""

_PYARROW = {StorageKind.S3: "s3", StorageKind.GCS: "gs"}
_SPARK = {StorageKind.S3: "s3a", StorageKind.GCS: "gs"}
_HOST = {
    StorageKind.S3: "a bucket, as in s3://bucket/folder",
    StorageKind.GCS: "a bucket, as in gs://bucket/folder",
    StorageKind.AZURE: "container and account, as in "
    "abfss://container@account.dfs.core.windows.net/folder",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, as its name says.

    Attributes:
        kind: the kind of storage.
        scheme: of its URI; ``"file"`` if it was given as a path.
        host: bucket, account or name node.
        path: the folder there, with a slash before it, without escapes.
        user: the user, if the URI names one; for Azure the container.
        secret: the password in the URI.
        options: options for pyarrow in the URI.
    """

    kind: StorageKind
    scheme: str
    host: str
    path: str
    user: str | None = None
    secret: str | None = None
    options: FrozenMap[str, str] = FrozenMap()  # noqa: RUF009  # frozen

    @classmethod
    def read(cls, root: str) -> "Place":
        """Read a path or a URI.

        Raises:
            CheckpointError: it names no place that is known.
        """
        found = _URI.fullmatch(root)
        if found is None:
            # Absolute, as another process may work in another folder.
            return cls(StorageKind.LOCAL, "file", "", os.path.abspath(root))  # noqa: PTH100
        scheme, rest = found[1].lower(), found[2]
        if scheme not in KINDS:
            raise CheckpointError(
                f"{root!r}: no storage {scheme + ':'!r} is known; known are {', '.join(KINDS)}. If "
                "it is a folder here, begin with a slash or with './'; if it is mounted here, give "
                "Location(folder, spark=URI)"
            )
        kind = KINDS[scheme]
        options = ""
        if kind is not StorageKind.LOCAL:
            rest, _, options = rest.partition("?")
        authority, path = "", rest
        if rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            path = slash + path
        user, secret, host = _parts(authority)
        if scheme == "file" and host.lower() == _HERE:
            host = ""
        given = dict(parse_qsl(options, keep_blank_values=True))
        place = cls(kind, scheme, host, _tidy(root, path), user, secret, FrozenMap(given))
        place._check(root)
        return place

    @property
    def folder(self) -> str:
        """The folder by its own file system's name, in pyarrow's form."""
        if self.scheme == "dbfs":
            return self.path if self.path.startswith(_VOLUMES) else f"/dbfs{self.path}".rstrip("/")
        if self.kind is StorageKind.AZURE:
            return f"{self.user}{self.path}".rstrip("/")
        if self.kind in {StorageKind.S3, StorageKind.GCS}:
            return f"{self.host}{self.path}".rstrip("/")
        return self.path

    @property
    def servers(self) -> tuple[str, str]:
        """The servers of Azure's account, for blobs and for folders, without its name.

        Clouds of some countries and OneLake have their own.
        """
        dfs = self.host.partition(".")[2]
        blobs = ".".join("blob" if part == "dfs" else part for part in dfs.split("."))
        options = self.options
        return (
            options.get("blob_storage_authority", f".{blobs}"),
            options.get("dfs_storage_authority", f".{dfs}"),
        )

    @property
    def encrypted(self) -> bool:
        """Whether Azure is spoken to by TLS, as it is unless the URI says otherwise."""
        return self.options.get("enable_tls", "true").lower() not in {"false", "0"}

    @property
    def root(self) -> str:
        """The text that `read` turns into this place."""
        if self.scheme == "file":
            return self.path
        if self.scheme == "dbfs":
            return f"dbfs:{quote(self.path)}"
        return self._uri(self.scheme, self.options)

    @property
    def uri(self) -> str:
        """The URI by which pyarrow finds the file system, of a place that is not local."""
        account, _, cloud = self.host.partition(".")
        if self.kind is StorageKind.AZURE and cloud != _AZURE:  # else pyarrow takes it for a server
            blobs, dfs = self.servers
            named = {"blob_storage_authority": blobs, "dfs_storage_authority": dfs}
            options = FrozenMap({**self.options, **named})
            return replace(self, host=f"{account}.{_AZURE}", options=options).uri
        return self._uri(_PYARROW.get(self.kind, self.scheme), self.options)

    @property
    def spark(self) -> str:
        """The folder by Spark's name: a URI of Hadoop, without escapes."""
        return self._plainly(_SPARK.get(self.kind, self.scheme))

    def __str__(self) -> str:
        """Return the place as it may be shown: no secrets, no options."""
        if self.kind is StorageKind.LOCAL:
            return self.folder
        return self._plainly(self.scheme)

    def _plainly(self, scheme: str) -> str:
        authority = self._authority(None) if self.kind is StorageKind.AZURE else self.host
        if not authority:
            return f"{scheme}:{self.path}"
        return f"{scheme}://{authority}{self.path.rstrip('/')}"

    def _uri(self, scheme: str, options: Mapping[str, str]) -> str:
        authority = self._authority(None if self.secret is None else quote(self.secret, safe=""))
        asked = f"?{urlencode(options)}" if options else ""
        return f"{scheme}://{authority}{quote(self.path)}{asked}"

    def _authority(self, secret: str | None) -> str:
        user = None if self.user is None else quote(self.user, safe="")
        asked = ":".join(part for part in (user, secret) if part is not None)
        return f"{asked}@{self.host}" if asked else self.host

    def _check(self, root: str) -> None:
        wanted = _HOST.get(self.kind)
        if wanted and (not self.host or (self.kind is StorageKind.AZURE and not self.user)):
            raise CheckpointError(f"{_shown(root)!r} is not whole: it needs {wanted}")
        if self.kind is StorageKind.AZURE and "dfs" not in self.host.split(".")[1:-1]:
            raise CheckpointError(f"{_shown(root)!r} is not as Spark has it: it needs {wanted}")
        if self.kind is StorageKind.LOCAL and self.host:
            raise CheckpointError(
                f"{root!r} names the host {self.host!r}; a folder is {self.scheme}:///folder"
            )
        if self.kind in {StorageKind.LOCAL, StorageKind.HADOOP} and not self.path.startswith("/"):
            raise CheckpointError(
                f"{root!r} does not say which folder; write {self.scheme}:///folder"
            )


def _parts(authority: str) -> tuple[str | None, str | None, str]:
    """Return user, secret and host."""
    asked, at, host = authority.rpartition("@")
    if not at:
        return None, None, host
    user, colon, secret = asked.partition(":")
    return unquote(user), unquote(secret) if colon else None, host


def _tidy(root: str, path: str) -> str:
    """Return the path without escapes, and without slashes that Hadoop would drop and S3 keep."""
    parts = [part for part in unquote(path).split("/") if part]
    if {".", ".."} & {*parts}:
        raise CheckpointError(
            f"{_shown(root)!r}: '.' and '..' name no folder in a URI; leave them out"
        )
    return "/" + "/".join(parts) if path.startswith("/") else "/".join(parts)


def _shown(root: str) -> str:
    """Return a given URI for messages: without password and options."""
    return re.sub(r"//[^/@]*:[^/@]*@", "//...@", root.partition("?")[0])
