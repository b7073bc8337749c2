"""What must come out of a drawn job: plain Python on dicts, one row after the other."""

import json
from collections import Counter
from urllib.parse import unquote

import pyarrow.parquet as pq

from any_job.operators import FOLDS, many_of
from optimizers.runtime.results import results_of


class Reference:
    """What one pair of hands would do, with no instances, no batches of a size and no plans."""

    def __init__(self, drawn):
        self.drawn = drawn
        keyed = [name for name, step in drawn.steps.items() if step.key]
        self.values = {name: {} for name in keyed}  # all that each key had, or its sum
        self.state = {name: {} for name in keyed}  # what is read of it

    def run(self, sources):
        """Take in the rows of one batch; return what each operator received and emitted."""
        received, emitted = {}, {}
        for name, step in self.drawn.steps.items():
            rows = list(sources.get(name, ()))
            for source, names in step.inputs:
                rows += [{names.get(n, n): v for n, v in row.items()} for row in emitted[source]]
            received[name] = rows
            if step.key:
                emitted[name] = self._fold(name, step, rows)
            elif step.row is None:
                emitted[name] = rows
            else:
                emitted[name] = [made for row in rows for made in step.row(row)]
        return received, emitted

    def _fold(self, name, step, rows):
        values, state = self.values[name], self.state[name]
        came = {}
        for row in rows:
            key = tuple(row[column] for column in step.key)
            came.setdefault(key, []).append(1 if step.fold == "count" else row["n"])
        for key, numbers in came.items():
            if step.fold == "many":
                values[key] = values.get(key, []) + numbers
                state[key] = many_of(values[key])
            else:
                values[key] = state[key] = values.get(key, 0) + sum(numbers)
            if step.fold == "closed" and not values[key] % 5:
                del values[key], state[key]
        if step.emit == "tuples":
            return rows
        if step.emit == "nothing":
            return []
        names = FOLDS[step.fold][1]
        return [
            {
                **dict(zip(step.key, key, strict=True)),
                **(state[key] if len(names) > 1 else {names[0]: state[key]}),
            }
            for key in came
            if key in state
        ]


def counted(rows):
    """Rows as a multiset; what is null is not there."""
    return Counter(
        json.dumps({n: v for n, v in sorted(row.items()) if v is not None}) for row in rows
    )


def outputs_of(checkpoint):
    """What left the job in the last batch, by operator."""
    found = {}
    for file in checkpoint.last_commit().outputs:
        assert not file.aside
        rows = pq.read_table(checkpoint.location.path_of(file.path))
        assert (file.rows, file.schema) == (len(rows), rows.schema.remove_metadata())
        assert unquote(file.path.split("/")[1]) == file.operator
        found.setdefault(file.operator, []).extend(rows.to_pylist())
    return {name: counted(rows) for name, rows in found.items()}


def results(drawn, checkpoint, name):
    """What the state of an operator says, by key."""
    step = drawn.steps[name]
    table = results_of(drawn.topology, name, checkpoint.read(name))
    if not len(table):
        return {}
    keys = list(zip(*(table.column(column).to_pylist() for column in step.key), strict=True))
    assert len(keys) == len(set(keys))
    names = FOLDS[step.fold][1]
    assert {*step.key, *names} == set(table.column_names)
    rows = table.select(names).to_pylist()
    values = rows if len(names) > 1 else [row[names[0]] for row in rows]
    return dict(zip(keys, values, strict=True))
