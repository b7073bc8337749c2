"""The processes of the search: each runs pytest for one property, and may die of it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ledger import Entry

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMMAND = (
    "-m",
    "pytest",
    "-q",
    "--tb=short",
    "-p",
    "search_rounds",
    "-p",
    "no:cacheprovider",
    f"--rootdir={ROOT}",
    f"--config-file={ROOT / 'pyproject.toml'}",
)
LAST_LINES = 20


@dataclass(frozen=True)
class Limits:
    """How far a search goes.

    Attributes:
        examples: how many each property is to be tried on.
        at_once: how many of them are drawn with one seed, after a first round of few.
        seconds: for one property.
        until: when the whole search ends, in seconds since 1970.
        patience: how many seconds a process may give no sign before it is ended.
    """

    examples: int
    at_once: int
    seconds: float
    until: float
    patience: float

    def with_seconds(self, seconds: float) -> "Limits":
        """Return the same limits with another one for one property."""
        return replace(self, seconds=seconds)


def environment(seed):
    """The environment of a process: plain, and repeatable by the seed."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    paths = [str(HERE), *filter(None, [plain.get("PYTHONPATH")])]
    hashes = str(seed % 2**32)
    return {**plain, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": hashes}


def split(path):
    """Return a file and what is named in it."""
    file, mark, rest = path.partition("::")
    return file, mark + rest


def properties(folder, paths):
    """The names of all properties in these paths."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "properties.json"
    listed.unlink(missing_ok=True)
    absolute = [f"{Path(file).resolve()}{rest}" for file, rest in map(split, paths)]
    command = [sys.executable, *COMMAND, "--collect-only", f"--search-list={listed}", *absolute]
    tried = subprocess.run(
        command, cwd=ROOT, env=environment(0), capture_output=True, text=True, check=False
    )
    if not listed.exists() or tried.returncode not in {0, 5}:
        raise SystemExit(f"pytest cannot collect {' '.join(paths)}:\n{tried.stdout}{tried.stderr}")
    return json.loads(listed.read_text("utf-8"))


@dataclass(frozen=True)
class Process:
    """Runs properties, each in a process."""

    folder: Path
    seed: int
    limits: Limits

    def run(self, name, entry, slot):
        """Go on with a property; return what is known of it then, and what was found, if at all."""
        if time.time() > self.limits.until:
            return entry, ""
        code, events, output = self.start(name, entry, slot, verbose=False)
        found, text = judged(entry, events, self.limits)
        if code is None:
            return replace(found, state="hung"), f"no sign for {self.limits.patience:.0f} s"
        if events and events[-1]["event"] == "end":
            return found, text
        if code >= 0 and not events:
            return replace(found, state="broken"), output
        how = f"the process died of {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
        return replace(found, state="aborted"), f"{how}\n{self.last_words(name, found, slot)}"

    def last_words(self, name, entry, slot):
        """Run the round in which a process died once more, and return the end of what it says."""
        again = replace(entry, rounds=max(entry.rounds - 1, 0))
        _, _, output = self.start(name, again, slot, verbose=True)
        before, mark, after = output.partition("Fatal Python error")
        lines = [*before.splitlines()[-LAST_LINES:], *(mark + after).splitlines()[:LAST_LINES]]
        return "\n".join(lines)

    def start(self, name, entry, slot, *, verbose):
        """Run pytest; return its exit code (None if it hung), what it noted, and what it said."""
        place = self.folder / "work" / str(slot)
        place.mkdir(parents=True, exist_ok=True)
        journal, output, task = (place / each for each in ("journal", "output", "task"))
        journal.write_bytes(b"")
        fields = {
            "name": name,
            "journal": str(journal),
            "seed": self.seed,
            "round": entry.rounds,
            "examples": entry.examples,
            "wanted": self.limits.examples,
            "at_once": self.limits.at_once,
            "seconds": self.limits.seconds,
            "until": self.limits.until,
            "verbose": verbose,
        }
        task.write_text(json.dumps(fields), "utf-8")
        path = name.partition("::")[0]
        # Unbuffered, for a process that dies takes along what it has not written yet.
        command = [sys.executable, "-u", "-X", "faulthandler", *COMMAND]
        command += ["-s"] if verbose else []
        command += ["--hypothesis-profile=search", f"--search-task={task}"]
        command += [f"--basetemp={place / 'tmp'}", path]
        with output.open("wb") as said:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(self.seed),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = self.awaited(process, journal)
        events = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        return code, events, output.read_text("utf-8", "replace")

    def awaited(self, process, journal):
        """Wait for a process as long as it gives signs; return its exit code, None if it hung."""
        while True:
            try:
                return process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                if time.time() - journal.stat().st_mtime > self.limits.patience:
                    os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
                    process.wait()
                    return None


def judged(entry: Entry, events, limits):
    """What is known of a property after these events, and what was found."""
    examples, rounds, seconds, state, text = entry.examples, entry.rounds, 0.0, "short", ""
    files = entry.files
    for event in events:
        match event["event"]:
            case "round":
                rounds = event["round"] + 1
            case "examples":
                examples += event["examples"]
                seconds = event["seconds"]
                state = "exhausted" if event["exhausted"] else state
            case "failed" | "skipped":
                state, text = event["event"], event["text"]
            case "end":
                files = event["files"]
    if state == "short" and examples >= limits.examples:
        state = "done"
    return (
        replace(
            entry,
            examples=examples,
            rounds=rounds,
            seconds=entry.seconds + seconds,
            state=state,
            files=files,
        ),
        text,
    )
