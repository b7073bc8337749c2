"""A small job with its key groups, what was seen of it, and what Albic says of a plan."""

import numpy as np

from optimizers import GroupStatistics, Statistics, Topology

GROUPS = 12
JOB = (
    Topology.source("s")
    .then("a", key="k", parallelism=3, key_groups=GROUPS)
    .then("b", key="l", parallelism=3, key_groups=GROUPS)
)


def groups_of(cpu, state, tuples):
    cpu = np.asarray(cpu, dtype=float)
    state = cpu * 1000 if state is None else state
    return GroupStatistics(cpu, cpu, cpu, state, tuples=tuples)


def seen_of(*loads, state=None, tuples=None, **more):
    seen = {name: groups_of(cpu, state, tuples) for name, cpu in zip("ab", loads, strict=False)}
    return Statistics(seconds=10.0, groups=seen, **more)


def figures(plan, about="the job"):
    (note,) = [note for note in plan.notes if note.about == about]
    return dict(note.figures)


def text(plan):
    return plan.notes[0].text
