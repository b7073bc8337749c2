"""Look for examples that break a property: ``python tests/search [path ...] --minutes 60``.

Each property (each test that Hypothesis draws examples for) is tried on thousands of fresh ones,
whatever number it is given when all tests are run, in a process of its own. A process that dies
is a finding like any other, and the search goes on. What is found, and how far it came, is kept
in ``.search``; ``--resume`` goes on from there, and tries again what has changed since.

Exit code: 0 if all properties hold, 1 if not, 3 if some had fewer examples than wanted.
"""

import argparse
import os
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ledger import FOUND, Ledger
from process import ROOT, Limits, Process, properties

FIRST_LOOK = 20.0
"""Seconds that each property has before any of them has more, if the time allows."""


def parsed(arguments):
    parser = argparse.ArgumentParser(
        prog="python tests/search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", default=["tests"], metavar="path", help="as for pytest")
    parser.add_argument("--examples", type=int, default=5000, help="of each property (5000)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all (no limit)")
    parser.add_argument("--seconds", type=float, default=600, help="for one property (600)")
    parser.add_argument("--round", type=int, default=500, help="examples at once (500)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at once (all cores)")
    parser.add_argument("--seed", type=int, help="of an earlier search, to repeat it")
    parser.add_argument("--resume", action="store_true", help="go on where the last one ended")
    parser.add_argument("--folder", type=Path, default=ROOT / ".search", help="(.search)")
    parser.add_argument("--patience", type=float, default=900, help="seconds without a sign (900)")
    options = parser.parse_args(arguments)
    for name in ("examples", "minutes", "seconds", "round", "processes", "patience"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name} {getattr(options, name)} must be above 0")
    if options.resume and options.seed is not None:
        parser.error("--resume goes on with the seed of the last search; leave --seed out")
    if options.resume and not (options.folder / "progress.json").exists():
        parser.error(f"there is no search in {options.folder} to go on with; leave --resume out")
    return options


def search(names, ledger, limits, processes):
    """Try all properties, first a little of each, then as much as is wanted."""
    for seconds in looks(len(names), limits, processes):
        open_still = [name for name in names if is_open(ledger.of(name), limits.examples)]
        with ThreadPoolExecutor(processes) as pool:
            process = Process(ledger.folder, ledger.seed, limits.with_seconds(seconds))
            tried = {
                pool.submit(process.run, name, ledger.of(name), slot): name
                for slot, name in enumerate(open_still)
            }
            for future in as_completed(tried):
                name, (entry, text) = tried[future], future.result()
                if entry.state in FOUND:
                    entry = ledger.keep_report(name, entry, text)
                    say(f"{entry.state}: {name}\n{indented(text)}\n  kept in {entry.report}")
                ledger.put(name, entry)


def looks(number, limits, processes):
    """Return how many seconds each property has at first, and then in all."""
    share = max(limits.until - time.time(), 0) * processes / number
    first = min(FIRST_LOOK, share / 2, limits.seconds)  # half of it, as processes have to start
    return sorted({first, limits.seconds})


def is_open(entry, wanted):
    return entry.state == "short" or (entry.state == "done" and entry.examples < wanted)


def indented(text, most=20):
    lines = text.splitlines()
    return "\n".join(f"    {line}" for line in lines[-most:])


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def summary(names, ledger):
    """Say how it went, and return the exit code."""
    entries = {name: ledger.of(name) for name in names}
    found = {name: entry for name, entry in entries.items() if entry.state in FOUND}
    short = {name: entry for name, entry in entries.items() if entry.state in {"short", "skipped"}}
    for name, entry in sorted(short.items(), key=lambda pair: pair[1].examples):
        say(f"{entry.state}: {entry.examples} examples in {entry.seconds:.0f} s: {name}")
    for name, entry in found.items():
        say(f"{entry.state}: {name}, see {entry.report}")
    total = sum(entry.examples for entry in entries.values())
    done = len(entries) - len(found) - len(short)
    say(
        f"{total} examples; of {len(entries)} properties {done} have had enough of them, "
        f"{len(short)} fewer, {len(found)} are broken; seed {ledger.seed}"
    )
    return 1 if found else 3 if short else 0


def main(arguments=None):
    options = parsed(arguments)
    if options.resume:
        ledger = Ledger.resumed(options.folder, ROOT)
    else:
        seed = secrets.randbits(32) if options.seed is None else options.seed
        ledger = Ledger(options.folder, seed)
    names = properties(options.folder, options.paths)
    if not names:
        say(f"there are no properties in {' '.join(options.paths)}; name folders or files of tests")
        return 1
    say(f"{len(names)} properties, seed {ledger.seed}")
    limits = Limits(
        examples=options.examples,
        at_once=min(options.round, options.examples),
        seconds=options.seconds,
        until=min(time.time() + 60 * options.minutes, 2**40),
        patience=options.patience,
    )
    try:
        search(names, ledger, limits, options.processes)
    finally:
        ledger.write()
    return summary(names, ledger)


if __name__ == "__main__":
    sys.exit(main())
