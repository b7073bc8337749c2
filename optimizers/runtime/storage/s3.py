"""S3's conditional create: ``PutObject`` with ``If-None-Match: *``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optimizers.runtime.storage.disk import NameTakenError, NoFenceError
from optimizers.runtime.storage.fence import MADE_BY, PassingError, StoreFence, is_passing, refused
from optimizers.runtime.storage.places import Place

_CONNECT, _ANSWER = 10, 30  # seconds


class S3Fence(StoreFence):
    """Creates objects on S3, and on stores that speak as S3 does.

    Args:
        place: where; its options name the server, as for pyarrow.
    """

    def __init__(self, place: Place) -> None:
        self._client = _client(place)

    def put(self, path: str, content: bytes, token: str) -> None:
        """Ask for the object to be made unless there is one."""
        with _as_fence_errors():
            self._client.put_object(
                **_object(path), Body=content, IfNoneMatch="*", Metadata={MADE_BY: token}
            )

    def token_of(self, path: str) -> str | None:
        """Return the token of the object."""
        try:
            with _as_fence_errors():
                found = self._client.head_object(**_object(path))["Metadata"].get(MADE_BY)
        except FileNotFoundError:
            return None
        return None if found is None else str(found)


@contextmanager
def _as_fence_errors() -> Iterator[None]:
    """Turn what the client says into what a fence says."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError  # noqa: PLC0415

    try:
        yield
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 412:
            raise NameTakenError from error
        if is_passing(status):
            raise PassingError(str(error)) from error
        raise refused(status, error) from error
    except HTTPClientError as error:  # no connection, or none that lasted
        raise PassingError(str(error)) from error
    except BotoCoreError as error:
        raise OSError(str(error)) from error


def _object(path: str) -> dict[str, str]:
    bucket, _, key = path.partition("/")
    return {"Bucket": bucket, "Key": key}


def _client(place: Place) -> Any:
    try:
        import boto3  # noqa: PLC0415  # only the driver needs it, and only for S3
        from botocore.config import Config  # noqa: PLC0415
    except ImportError as error:
        raise NoFenceError(
            f"boto3 is not installed ({error}); pip install 'penstock[s3]'"
        ) from error
    options = place.options
    server = options.get("endpoint_override")
    if server and "://" not in server:
        server = f"{options.get('scheme', 'https')}://{server}"
    virtual = options.get("force_virtual_addressing", "false").lower() in {"true", "1"}
    return boto3.session.Session().client(
        "s3",
        region_name=options.get("region"),
        endpoint_url=server,
        aws_access_key_id=place.user,
        aws_secret_access_key=place.secret,
        config=Config(
            connect_timeout=_CONNECT,
            read_timeout=_ANSWER,
            retries={"total_max_attempts": 1},  # the fence itself asks again
            s3={"addressing_style": "path" if server and not virtual else "auto"},
        ),
    )
