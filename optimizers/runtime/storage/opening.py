"""From a place to the disk that reads and writes there."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from optimizers.errors import CheckpointError
from optimizers.runtime.storage.disk import Disk, NoFenceError
from optimizers.runtime.storage.fence import Fence
from optimizers.runtime.storage.local import LocalDisk
from optimizers.runtime.storage.places import Place, StorageKind
from optimizers.runtime.storage.remote import RemoteDisk
from sketches.values import FrozenMap

_AT_ONCE = "allow_delayed_open"
"""The option by which pyarrow sends a small file in one request."""


@lru_cache(maxsize=64)
def disk_of(root: str) -> tuple[Disk, Place]:
    """Return the disk of a path or URI, and the place there."""
    place = Place.read(root)
    if place.scheme == "dbfs":
        _check_mount(place)
    if place.kind is StorageKind.LOCAL:
        return LocalDisk(), place
    files = files_of(place)
    hadoop = place.kind is StorageKind.HADOOP
    return RemoteDisk(files, _fence_of(place), whole=not hadoop, folders=hadoop), place


def files_of(place: Place) -> pyarrow.fs.FileSystem:
    """Return pyarrow's file system of a place that is not local."""
    if place.kind is StorageKind.S3 and _AT_ONCE not in place.options:
        at_once = FrozenMap({**place.options, _AT_ONCE: "true"})
        try:
            return pyarrow.fs.FileSystem.from_uri(replace(place, options=at_once).uri)[0]
        except pa.ArrowInvalid as error:
            if _AT_ONCE not in str(error):
                raise  # else pyarrow is older than 21, and takes three requests
    if place.kind is not StorageKind.AZURE or place.secret is None:
        return pyarrow.fs.FileSystem.from_uri(place.uri)[0]
    # pyarrow reads an account key in a URI, and then asks without it.
    scheme = "https" if place.encrypted else "http"
    blobs, dfs = place.servers
    return pyarrow.fs.AzureFileSystem(
        place.host.partition(".")[0],
        account_key=place.secret,
        blob_storage_authority=blobs,
        blob_storage_scheme=scheme,
        dfs_storage_authority=dfs,
        dfs_storage_scheme=scheme,
    )


def _check_mount(place: Place) -> None:
    mount = "/" + place.folder.split("/")[1]
    if not Path(mount).is_dir():
        raise CheckpointError(
            f"{place.spark} is reached by Python as {place.folder}, and {mount} is not mounted "
            "here; run where it is, or give Location(folder, spark=...) with the folder that it is "
            "mounted at"
        )


def _fence_of(place: Place) -> Callable[[], Fence]:
    """Return the maker of a place's fence; the store's own client is imported only then."""

    def fence() -> Fence:
        if place.kind is StorageKind.S3:
            from optimizers.runtime.storage.s3 import S3Fence  # noqa: PLC0415

            return S3Fence(place)
        if place.kind is StorageKind.GCS:
            from optimizers.runtime.storage.gcs import GcsFence  # noqa: PLC0415

            return GcsFence(place)
        if place.kind is StorageKind.AZURE:
            from optimizers.runtime.storage.azure import AzureFence  # noqa: PLC0415

            return AzureFence(place)
        raise NoFenceError(f"pyarrow creates no file exclusively on {place.kind.value}")

    return fence
