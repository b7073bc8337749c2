"""Rows as text: JSON for programs to read, and cut short for messages."""

import json

import pyarrow as pa

from optimizers.folds.plain_values import plain_values

_LONGEST = 300


def row_texts(rows: pa.Table) -> list[str]:
    """Return each row as a JSON object of its columns, whatever is in them; see `plain_values`.

    >>> row_texts(pa.table({"word": ["to", None], "at": [1.5, float("nan")]}))
    ['{"word": "to", "at": 1.5}', '{"word": null, "at": "NaN"}']
    """
    columns = [plain_values(column) for column in rows.columns]
    return [
        json.dumps(dict(zip(rows.column_names, values, strict=True)), ensure_ascii=False)
        for values in zip(*columns, strict=True)
    ]


def shortened(text: str) -> str:
    """Return a text in one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"
