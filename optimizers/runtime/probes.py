"""Probes: what tasks observe, as small tables that travel with their reports."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.hashing import code_parts
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError
from optimizers.folds.keys import take_rows
from optimizers.operators import Edge
from optimizers.runtime.key_columns import key_batch
from optimizers.runtime.reports import TaskReport
from optimizers.runtime.work import Work
from optimizers.statistics import Probe
from sketches.keys import Codes, pair_codes

PAIRS, KEYS, GROUPS, TRAFFIC, COSTS = "pairs", "keys", "groups", "traffic", "costs"
TRIAL = "trial"
EACH, MEAN = "each", "mean"  # costs of each tuple by itself; of all tuples of a call alike


def name_of(kind: str, *operators: str) -> str:
    """Return the name of an observation; see `kind_of`."""
    return json.dumps([kind, *operators])


def kind_of(name: str) -> tuple[str, ...]:
    """Return what was observed, and of which operators."""
    return tuple(json.loads(name))


def observe_edge(
    work: Work, edge: Edge, tuples: pa.Table, keys: KeyBatch, report: TaskReport
) -> None:
    """Count with which keys of the keyed operators before them the tuples of an edge come.

    An operator before is one whose key columns the tuples still have; where they do not, or have
    nulls or other things there by now, nothing is known of it. Where there are many tuples, one of
    several is looked at.
    Pairs are counted of keys of one column.
    """
    wanted = work.settings.observes & {Probe.PAIRS, Probe.GROUPS}
    if not wanted:
        return
    step = max(1, -(-len(tuples) // work.settings.looked_at))
    # Not the same ones from each sender and each time, for the stream may repeat itself.
    rows = np.arange((report.sender + report.shipped) % step, len(tuples), step)
    for first in work.hops.get(edge.name, ()):
        before = work.topology.operator(first)
        columns = *before.key_columns, *work.topology.key_columns(*edge.name)
        if not set(before.key_columns) <= set(tuples.column_names):
            continue
        sample = take_rows(tuples.select(list(dict.fromkeys(columns))), rows)
        there = without_nulls(sample, before.key_columns)
        sample, right = sample.filter(pa.array(there)), keys.codes[rows[there]]
        try:
            left = key_batch(sample, before.key_columns, f"operator {first!r}").codes
        except FoldError:
            continue  # the work between has made them something that is no key
        if Probe.PAIRS in wanted and len(columns) == 2:
            table = _pairs(sample.select(columns), pair_codes(left, right), step)
            report.observe(name_of(PAIRS, first, edge.target), table)
        if Probe.GROUPS in wanted:
            sizes = before.key_groups, work.topology.operator(edge.target).key_groups
            report.observe(name_of(TRAFFIC, first, edge.target), _traffic(left, right, sizes, step))


def observe_keys(  # noqa: PLR0913, PLR0917
    work: Work,
    operator: str,
    keys: pa.Table,
    codes: Codes,
    counts: NDArray[np.int64],
    report: TaskReport,
) -> None:
    """Report how often the keys of an operator came: the heaviest by name, all by their group.

    Args:
        work: the job.
        operator: the operator.
        keys: the key columns of the distinct keys.
        codes: their codes.
        counts: how many tuples each had.
        report: where to.
    """
    report.hottest = int(counts.max(initial=0))
    observes = work.settings.observes
    if Probe.PAIRS in observes and keys.num_columns == 1:
        chosen = heaviest(counts, work.settings.most_keys)
        named = [keys.column(0).take(pa.array(chosen)), pa.array(counts[chosen])]
        report.observe(name_of(KEYS, operator), pa.table(named, ["key", "count"]))
    if Probe.GROUPS in observes:
        number = work.topology.operator(operator).key_groups
        tuples = np.bincount(code_parts(codes, number), counts, number)
        report.observe(name_of(GROUPS, operator), pa.table({"tuples": tuples}))


def heaviest(counts: NDArray[np.int64] | NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return the numbers of the keys that came most often, the heaviest first."""
    chosen = np.arange(len(counts))
    if len(counts) > most:
        least = np.partition(counts, len(counts) - most)[len(counts) - most]
        above, equal = np.flatnonzero(counts > least), np.flatnonzero(counts == least)
        chosen = np.sort(np.concatenate([above, equal[: most - len(above)]]))
    return chosen[np.argsort(-counts[chosen], kind="stable")]


def without_nulls(sample: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Return which rows have something in all of these columns."""
    there = np.ones(len(sample), dtype=np.bool_)
    for name in columns:
        column = sample.column(name)
        if column.null_count:
            there &= column.is_valid().to_numpy()
    return there


def _pairs(sample: pa.Table, codes: Codes, step: int) -> pa.Table:
    """Return each pair of keys once, with the number of tuples it stands for."""
    _, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    distinct = sample.take(pa.array(firsts))
    return pa.table([*distinct.columns, pa.array(counts * step)], ["left", "right", "count"])


def _traffic(left: Codes, right: Codes, sizes: tuple[int, int], step: int) -> pa.Table:
    """Return how many tuples went from which key group to which."""
    cells = code_parts(left, sizes[0]).astype(np.int64) * sizes[1] + code_parts(right, sizes[1])
    found, counts = np.unique(cells, return_counts=True)
    return pa.table(
        {"source": found // sizes[1], "target": found % sizes[1], "tuples": counts * step}
    )
