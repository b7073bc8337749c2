"""Tidying a checkpoint: removing files that no batch needs, and rewriting several as one."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from optimizers.errors import CheckpointError
from optimizers.runtime.log.cleaning import COMPACTED, cut_off, garbage
from optimizers.runtime.log.commit_log import COMMITS, PLANS, Log, commit_name, plan_name
from optimizers.runtime.log.records import Commit
from optimizers.runtime.state.file import FOLDER as STATE
from optimizers.runtime.state.file import Attempt, FileKind, StateFile, read_states, write_state

OUTPUT = "output"


def unneeded(log: Log, keep: int, *, alone: bool) -> list[str]:
    """Return the files that no batch needs any more, in the order in which they may go.

    Args:
        log: the log.
        keep: how many batches stay readable.
        alone: whether no driver works on the checkpoint.
    """
    numbers = sorted(log.commits())
    if not numbers:
        return []
    kept = _kept(numbers, keep, alone=alone)
    records = [log.commit(*number) for number in kept]
    needed = frozenset().union(*(record.files for record in records))
    plans = {record.saved_plan for record in records}
    last = numbers[-1][0]
    found = [commit_name(*number) for number in numbers if number not in kept]
    found += [
        plan_name(*number) for number in log.plans() if number[0] <= last and number not in plans
    ]
    # Records go first: one that is left never refers to a file that is gone.
    for folder in (COMMITS, PLANS):
        found += cut_off(log.location.list(folder), up_to=last)
    for folder in (STATE, OUTPUT):
        found += garbage(log.location.list(folder), needed, up_to=last, alone=alone)
    return found


def compact(log: Log, last: Commit | None, check: Callable[[], object]) -> Commit | None:
    """Rewrite the state of each instance at a commit as one file; return the commit of that.

    Args:
        log: the log.
        last: the commit.
        check: is called just before the new commit; if it raises, nothing is committed.

    Raises:
        CheckpointError: another batch was committed meanwhile.
    """
    if last is None or all(len(files) < 2 for _, _, files in last.instances()):
        return last
    name = f"{COMPACTED}{secrets.token_hex(8)}"
    state: Mapping[str, tuple[tuple[StateFile, ...], ...]] = {
        operator: tuple(
            _in_one(log, files, Attempt(operator, instance, last.batch, name))
            for instance, files in enumerate(instances)
        )
        for operator, instances in last.state.items()
    }
    newest = max(log.commits())
    if newest != last.number:
        raise CheckpointError(
            f"batch {newest[0]} was committed in {log.location} while the state of batch "
            f"{last.batch} was being rewritten; nothing is changed: stop the job, then try again"
        )
    check()
    compacted = replace(last, state=state, revision=last.revision + 1)
    log.write_commit(compacted)
    return compacted


def _kept(numbers: Sequence[tuple[int, int]], keep: int, *, alone: bool) -> list[tuple[int, int]]:
    """Return the commits to be kept: the last revision of each of the newest batches.

    A driver may hold an earlier revision of the newest batch, and go on from its files.
    """
    newest = dict(numbers)
    batches = sorted(newest)[-keep:]
    return [
        (batch, revision)
        for batch, revision in numbers
        if batch in batches and (revision == newest[batch] or (batch == batches[-1] and not alone))
    ]


def _in_one(log: Log, files: tuple[StateFile, ...], attempt: Attempt) -> tuple[StateFile, ...]:
    if len(files) < 2:
        return files
    rows = read_states(log.location, files)
    return (write_state(log.location, attempt, rows, kind=FileKind.BASE),)
