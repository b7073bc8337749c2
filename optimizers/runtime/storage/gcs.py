"""Google's conditional create: an upload with ``ifGenerationMatch=0``."""

import json
import secrets
from typing import Any
from urllib.parse import quote

from optimizers.runtime.storage.disk import NameTakenError, NoFenceError
from optimizers.runtime.storage.fence import MADE_BY, PassingError, StoreFence, is_passing, refused
from optimizers.runtime.storage.places import Place

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_SERVER = "storage.googleapis.com"
_TIMES = (10, 30)  # seconds to connect, and to answer


class GcsFence(StoreFence):
    """Creates objects on Google Cloud Storage, by its JSON interface.

    Args:
        place: where; its options name the server, as for pyarrow.
    """

    def __init__(self, place: Place) -> None:
        self._session = _session(place)
        server = place.options.get("endpoint_override", _SERVER)
        self._server = f"{place.options.get('scheme', 'https')}://{server}"

    def put(self, path: str, content: bytes, token: str) -> None:
        """Ask for the object to be made unless there is one."""
        bucket, name = _object(path)
        border = secrets.token_hex(16)
        described = json.dumps({"name": name, "metadata": {MADE_BY: token}})
        body = b"\r\n".join(
            [
                f"--{border}\r\nContent-Type: application/json; charset=UTF-8\r\n".encode(),
                described.encode(),
                f"--{border}\r\nContent-Type: application/octet-stream\r\n".encode(),
                content,
                f"--{border}--\r\n".encode(),
            ]
        )
        self._ask(
            "POST",
            f"/upload/storage/v1/b/{quote(bucket, safe='')}/o",
            params={"uploadType": "multipart", "ifGenerationMatch": "0"},
            data=body,
            headers={"Content-Type": f"multipart/related; boundary={border}"},
        )

    def token_of(self, path: str) -> str | None:
        """Return the token of the object."""
        bucket, name = (quote(part, safe="") for part in _object(path))
        try:
            answer = self._ask("GET", f"/storage/v1/b/{bucket}/o/{name}")
        except FileNotFoundError:
            return None
        found = answer.json().get("metadata", {}).get(MADE_BY)
        return None if found is None else str(found)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        from requests import RequestException  # noqa: PLC0415

        try:
            answer = self._session.request(method, self._server + path, timeout=_TIMES, **options)
        except RequestException as error:
            raise PassingError(str(error)) from error
        except GoogleAuthError as error:
            raise OSError(str(error)) from error
        if answer.status_code == 412:
            raise NameTakenError
        if is_passing(answer.status_code):
            raise PassingError(f"{answer.status_code} {answer.reason}")
        if not answer.ok:
            why = OSError(f"{answer.status_code} {answer.reason}: {answer.text[:200]}")
            raise refused(answer.status_code, why)
        return answer


def _object(path: str) -> tuple[str, str]:
    bucket, _, name = path.partition("/")
    return bucket, name


def _session(place: Place) -> Any:
    try:
        import google.auth  # noqa: PLC0415  # only the driver needs it, and only for this store
        import requests  # noqa: PLC0415
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415
    except ImportError as error:
        raise NoFenceError(
            f"google-auth is not installed ({error}); pip install 'penstock[gcs]'"
        ) from error
    if place.user == "anonymous":
        return requests.Session()
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.DefaultCredentialsError as error:
        raise PermissionError(13, str(error)) from error
    return AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
