"""Azure's conditional create: ``Put Blob`` with ``If-None-Match: *``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optimizers.runtime.storage.disk import NameTakenError, NoFenceError
from optimizers.runtime.storage.fence import MADE_BY, PassingError, StoreFence, is_passing, refused
from optimizers.runtime.storage.places import Place

_CONNECT, _ANSWER = 10, 30  # seconds
_IDENTITIES = {
    "default": "DefaultAzureCredential",
    "cli": "AzureCliCredential",
    "managed_identity": "ManagedIdentityCredential",
    "workload_identity": "WorkloadIdentityCredential",
    "environment": "EnvironmentCredential",
}


class AzureFence(StoreFence):
    """Creates blobs in Azure's storage, with a hierarchical namespace or without.

    Args:
        place: where; its options name the server and the account, as for pyarrow.
    """

    def __init__(self, place: Place) -> None:
        self._client = client_of(place)

    def put(self, path: str, content: bytes, token: str) -> None:
        """Ask for the blob to be made unless there is one."""
        with _as_fence_errors():
            self._blob(path).upload_blob(content, overwrite=False, metadata={MADE_BY: token})

    def token_of(self, path: str) -> str | None:
        """Return the token of the blob."""
        try:
            with _as_fence_errors():
                found = self._blob(path).get_blob_properties().metadata.get(MADE_BY)
        except FileNotFoundError:
            return None
        return None if found is None else str(found)

    def _blob(self, path: str) -> Any:
        container, _, name = path.partition("/")
        return self._client.get_blob_client(container, name)


@contextmanager
def _as_fence_errors() -> Iterator[None]:
    """Turn what the client says into what a fence says."""
    from azure.core.exceptions import (  # noqa: PLC0415
        AzureError,
        HttpResponseError,
        ResourceExistsError,
        ServiceRequestError,
        ServiceResponseError,
    )

    try:
        yield
    except ResourceExistsError as error:
        code: Any = getattr(error, "error_code", None)
        if code == "BlobAlreadyExists":
            raise NameTakenError from error
        raise PassingError(str(error)) from error
    except HttpResponseError as error:
        status = error.status_code or 0
        if status == 412:
            raise NameTakenError from error
        if is_passing(status):
            raise PassingError(str(error)) from error
        raise refused(status, error) from error
    except (ServiceRequestError, ServiceResponseError) as error:  # no connection, or no answer
        raise PassingError(str(error)) from error
    except AzureError as error:
        raise OSError(str(error)) from error


def client_of(place: Place) -> Any:
    """Return a client of the account's blobs."""
    try:
        from azure.storage.blob import BlobServiceClient  # noqa: PLC0415  # only the driver's
    except ImportError as error:
        raise NoFenceError(
            f"azure-storage-blob is not installed ({error}); pip install 'penstock[azure]'"
        ) from error
    account = place.host.partition(".")[0]
    server, _ = place.servers
    scheme = (
        "http" if place.options.get("enable_tls", "true").lower() in {"false", "0"} else "https"
    )
    # As pyarrow has it: a server that begins with a dot is of the account, another has many.
    url = f"{scheme}://{account}{server}" if server[0] == "." else f"{scheme}://{server}/{account}"
    return BlobServiceClient(
        url,
        credential=_credential(place),
        retry_total=0,  # the fence itself asks again
        connection_timeout=_CONNECT,
        read_timeout=_ANSWER,
    )


def _credential(place: Place) -> Any:
    """Return who asks, by the options that pyarrow takes."""
    options = place.options
    if place.secret is not None:
        # With its name, which the client finds in the names of some clouds' servers only.
        return {"account_name": place.host.partition(".")[0], "account_key": place.secret}
    kind = options.get("credential_kind", "default")
    if kind == "anonymous":
        return None
    if kind not in _IDENTITIES or "sig" in options:
        raise NoFenceError(
            f"credential_kind={kind!r} and signatures are not known to the fence; use one of "
            f"{', '.join(_IDENTITIES)}, an account key, or client_id, client_secret and tenant_id"
        )
    try:
        import azure.identity as identities  # noqa: PLC0415
    except ImportError as error:
        raise NoFenceError(
            f"azure-identity is not installed ({error}); pip install 'penstock[azure]'"
        ) from error
    if "client_secret" in options:
        return identities.ClientSecretCredential(
            options["tenant_id"], options["client_id"], options["client_secret"]
        )
    chosen = {"client_id": options["client_id"]} if "client_id" in options else {}
    return getattr(identities, _IDENTITIES[kind])(**chosen)
