"""What the search has tried so far, by property, in a file that it can go on from."""

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

FOUND = ("failed", "aborted", "hung", "broken")
"""States of properties for which something was found."""

PAUSE = 10.0
"""Seconds between two writings of all entries, which name all files that each property loads."""


@dataclass(frozen=True)
class Entry:
    """What is known of one property.

    Attributes:
        examples: how many fresh ones it held for.
        rounds: how many of them were begun.
        seconds: how long that took.
        state: short, done, exhausted (there are no more inputs), skipped, failed, aborted (its
            process died), hung, or broken (pytest itself failed).
        files: the files it was run with, and what was in them.
        report: the file that tells what was found.
    """

    examples: int = 0
    rounds: int = 0
    seconds: float = 0.0
    state: str = "short"
    files: dict[str, str] = field(default_factory=dict)
    report: str = ""


class Ledger:
    """All entries, kept in a folder."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.seed = folder, seed
        self.entries: dict[str, Entry] = {}
        self.written = -PAUSE

    @classmethod
    def resumed(cls, folder: Path, root: Path) -> "Ledger":
        """Go on with what is there, but for properties whose files have changed."""
        known = json.loads((folder / "progress.json").read_text("utf-8"))
        ledger = cls(folder, known["seed"])
        here: dict[str, str | None] = {}
        for name, fields in known["properties"].items():
            entry = Entry(**fields)
            if entry.state in {"skipped", "aborted", "hung", "broken"}:
                continue
            for path in entry.files:
                if path not in here:
                    there = root / path
                    content = there.read_bytes() if there.exists() else None
                    here[path] = None if content is None else hashlib.sha256(content).hexdigest()
            if entry.files and all(here[path] == digest for path, digest in entry.files.items()):
                ledger.entries[name] = entry
        return ledger

    def of(self, name: str) -> Entry:
        """Return what is known of a property."""
        return self.entries.get(name, Entry())

    def put(self, name: str, entry: Entry) -> None:
        """Keep what is known of a property now; it is on disk after a pause, or at the end."""
        if entry == self.of(name):
            return
        self.entries[name] = entry
        if time.monotonic() - self.written >= PAUSE:
            self.write()

    def write(self) -> None:
        """Write what is known of all properties."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = {each: asdict(known) for each, known in sorted(self.entries.items())}
        fresh = self.folder / "progress.json.new"
        fresh.write_text(json.dumps({"seed": self.seed, "properties": properties}), "utf-8")
        fresh.replace(self.folder / "progress.json")
        self.written = time.monotonic()

    def keep_report(self, name: str, entry: Entry, text: str) -> Entry:
        """Write down what was found for a property."""
        short = "".join(each if each.isalnum() else "-" for each in name.rpartition("/")[2])[:80]
        path = (
            self.folder / "found" / f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.txt"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"{name}: {entry.state}\n"
            f"again: .venv/bin/python tests/search --seed {self.seed} '{name}'\n\n{text}\n",
            "utf-8",
        )
        return replace(entry, report=str(path))
