"""Whether a file can be written, before what it is for has taken its time."""

from pathlib import Path

from optimizers.errors import InvalidValueError


def check_writable(path: Path | None) -> None:
    """Refuse a file now that could not be written at the end."""
    if path is None:
        return
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be written: {error.strerror or error}; give a file in a folder that is "
            "there"
        ) from None
    if is_new:
        path.unlink()
