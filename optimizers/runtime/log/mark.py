"""The mark of a checkpoint: its job, its seed, and a name of its own."""

import re
import secrets
import socket
from dataclasses import dataclass

from optimizers.documents import Record, read, write
from optimizers.errors import CheckpointError
from optimizers.runtime.log import live_drivers
from optimizers.runtime.log.commit_log import COMMITS, PLANS, read_record
from optimizers.runtime.log.job_identity import Identity
from optimizers.runtime.log.records import sealed, unsealed
from optimizers.runtime.log.tidying import OUTPUT
from optimizers.runtime.state.file import FOLDER as STATE
from optimizers.runtime.storage.location import Location
from sketches.mixing import SEED_LIMIT, checked_seed

FORMAT = 2
"""The version of the format of a checkpoint: the layout and names of its files."""

MARK = "penstock.json"
SPARK = "spark"

_FORMAT = re.compile(rb'^  "format": (\d+),$', re.MULTILINE)
_FOLDERS = (COMMITS, PLANS, STATE, OUTPUT)
_EARLIER = frozenset({"recorded", "admitted", live_drivers.FOLDER})  # may be there before the mark
_OF_THE_DISK = frozenset({"lost+found"})


@dataclass(frozen=True, slots=True)
class Mark:
    """The record of how a checkpoint was made, which never changes.

    Attributes:
        identity: the job it is of.
        seed: of the hashes of its keys.
        name: unlike that of every other checkpoint, also of one that was in its folder before.
    """

    identity: Identity
    seed: int
    name: str

    @classmethod
    def drawn(cls, identity: Identity, seed: int | None = None) -> "Mark":
        """Return the mark of a new checkpoint.

        Args:
            identity: the job it is of.
            seed: of the hashes of its keys; by default one is drawn, so that no one outside can
                know which keys collide.
        """
        chosen = drawn_seed() if seed is None else checked_seed(seed)
        return cls(identity, chosen, secrets.token_hex(8))

    def to_json(self) -> str:
        """Write it as a JSON document."""
        fields = {"format": FORMAT, "name": self.name, "seed": self.seed}
        return write("checkpoint", {**fields, **self.identity.to_dict()})

    @classmethod
    def from_json(cls, content: bytes) -> "Mark":
        """Read what `to_json` wrote."""
        return read(content, "checkpoint", cls._from_record)

    @classmethod
    def _from_record(cls, record: Record) -> "Mark":
        record.take("format", int)
        name, seed = record.take("name", str), checked_seed(record.take("seed", int))
        return cls(Identity.from_record(record), seed, name)


def drawn_seed() -> int:
    """Draw the seed of a new checkpoint."""
    return 1 + secrets.randbelow(SEED_LIMIT - 1)


def check_shared(location: Location, name: str) -> None:
    """Refuse a folder in which this process finds another checkpoint, or none.

    Raises:
        CheckpointError: driver and executors do not share the folder.
    """
    if location.exists(MARK):
        if read_mark(location).name == name:
            return
        found = "another checkpoint is"
    else:
        found = "no checkpoint is"
    raise CheckpointError(
        f"{found} at {location} on {socket.gethostname()}, so executors do not share this folder "
        "with the driver; give a folder on storage that all of them reach"
    )


def read_mark(location: Location) -> Mark:
    """Return the mark of a checkpoint.

    Raises:
        CheckpointError: it is damaged, or of another format.
    """
    text = read_record(location, MARK, unsealed)
    found = _format_of(text)
    if found is not None and found != FORMAT:
        raise CheckpointError(
            f"the checkpoint {location} is laid out by format {found}, and this Penstock knows "
            f"format {FORMAT}; go on with the version of Penstock that made it, or give the job an "
            "empty folder"
        )
    return read_record(location, MARK, lambda _: Mark.from_json(text))


def make(location: Location, mark: Mark) -> None:
    """Make a checkpoint in a folder where nothing is.

    Raises:
        CheckpointError: something is there.
    """
    check_free(location)
    for folder in _FOLDERS:
        location.make_folder(folder)
    location.write_new(MARK, sealed(mark.to_json()))


def check_free(location: Location) -> None:
    """Refuse a folder that is no checkpoint, and holds what is not of one that is to be made.

    Raises:
        CheckpointError: something is there.
    """
    for folder in (*_FOLDERS, SPARK):
        if location.list(folder):
            raise CheckpointError(
                f"{location} has files in {folder}/ but no {MARK}, so it is not known which job "
                "they are of; bring that file back, or give the job an empty folder"
            )
    ours = {*_FOLDERS, SPARK, *_EARLIER, *_OF_THE_DISK}
    others = [name for name in location.entries() if name not in ours and name[0] != "."]
    if others:
        raise CheckpointError(
            f"{location} is not a checkpoint, and holds {_few(others)}; give the job an empty "
            f"folder, such as {location.root.rstrip('/')}/checkpoint"
        )


def _few(names: list[str], shown: int = 3) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(repr, sorted(names)[:shown])) + more


def _format_of(content: bytes) -> int | None:
    found = _FORMAT.search(content)
    return None if found is None else int(found[1])
