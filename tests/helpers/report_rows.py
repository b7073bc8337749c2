"""What tasks report, task by task: reports travel as columns."""

from types import SimpleNamespace

from optimizers.runtime.observe.observation import Observation
from optimizers.runtime.task.parcels import REPORT, from_batches
from optimizers.runtime.task.reports import FACTS, Reports


def rows_of(reports):
    """Each task of some reports, with its facts as attributes."""
    merged = Reports.merged(reports)
    columns = {name: kind.values(merged.columns[name]) for name, kind in FACTS.items()}
    rows = zip(*columns.values(), strict=True)
    return [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in rows]


def seen_in(reports, kind, *about):
    """All rows of the tables of what was observed."""
    tables = Reports.merged(reports).observed.get(Observation.of(kind, *about), ())
    return [row for table in tables for row in table.to_pylist()]


def reports_in(batches):
    """The reports among parcels, as they arrive."""
    return [Reports.from_parcel(p) for p in from_batches(batches) if p.edge == REPORT]


def ends_of(flows):
    """What flows count, by edge and instance: parcels, rows, bytes, digest."""
    names = ["parcels", "rows", "bytes", "digest"]
    keys = flows[["edge", "instance"]].tolist()
    return dict(zip(keys, flows[names].tolist(), strict=True))
