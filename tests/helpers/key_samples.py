"""Keys to draw, and what tests of keys and their codes share."""

from collections import UserList

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sketches.keys import as_keys

UINT64 = st.integers(0, 2**64 - 1)


# Arrow and NumPy have no cells for lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
BINARIES = st.binary(max_size=300)


def codes(keys):
    return as_keys(keys).codes.tolist()


def u64(*values):
    return np.array(values, dtype=np.uint64)


TEXT_CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "another sequence": UserList,
    "object array": lambda keys: np.array([*keys, None], dtype=object)[:-1],
    "StringDType": lambda keys: np.array(keys, dtype=np.dtypes.StringDType()),
    "string": lambda keys: pa.array(keys, pa.string()),
    "large string": lambda keys: pa.array(keys, pa.large_string()),
    "string view": lambda keys: pa.array(keys, pa.string_view()),
    "dictionary": lambda keys: pa.array(keys, pa.string()).dictionary_encode(),
    "dictionary of int8": lambda keys: (
        pa.array(keys, pa.large_string())
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.large_string()))
    ),
    "slice": lambda keys: pa.array(["x", *keys, "yyyyyyyyy"], pa.string())[1:-1],
    "slice of large": lambda keys: pa.array(["x", *keys, "yyyyyyyyy"], pa.large_string())[1:-1],
    "slice of a dictionary": lambda keys: pa.array(["x", *keys]).dictionary_encode()[1:],
    "slice of a view": lambda keys: pa.array(["x" * 20, *keys, "y"], pa.string_view())[1:-1],
    "no chunks": lambda keys: pa.chunked_array([keys] if keys else [], pa.string()),
    "chunks": lambda keys: pa.chunked_array([keys[:1], [], keys[1:]], pa.string()),
    "chunks of dictionaries": lambda keys: pa.chunked_array(
        [pa.array(part, pa.string()).dictionary_encode() for part in (keys[:2], keys[2:])]
    ),
    "column of a table": lambda keys: pa.table({"k": pa.array(keys, pa.string())})["k"],
}
BYTES_CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "object array": lambda keys: np.array([*keys, None], dtype=object)[:-1],
    "binary": lambda keys: pa.array(keys, pa.binary()),
    "large binary": lambda keys: pa.array(keys, pa.large_binary()),
    "binary view": lambda keys: pa.array(keys, pa.binary_view()),
    "dictionary": lambda keys: pa.array(keys, pa.binary()).dictionary_encode(),
    "slice": lambda keys: pa.array([b"x", *keys, b"yyyyyyyyy"], pa.binary())[1:-1],
    "slice of large": lambda keys: pa.array([b"x", *keys, b"yyyyy"], pa.large_binary())[1:-1],
    "chunks": lambda keys: pa.chunked_array([keys[:1], keys[1:]], pa.binary()),
}
INTEGER_CONTAINERS = {
    "list": list,
    "range of lists": tuple,
    "NumPy integers": lambda keys: [np.int64(key) for key in keys],
    "mixed integers": lambda keys: [np.int64(k) if i % 2 else k for i, k in enumerate(keys)],
    "object array": lambda keys: np.array(keys, dtype=object),
    "int64": lambda keys: np.array(keys, np.int64),
    "big endian": lambda keys: np.array(keys, ">i8"),
    "every second": lambda keys: np.repeat(np.array(keys, np.int64), 2)[::2],
    "Arrow": lambda keys: pa.array(keys, pa.int64()),
    "Arrow slice": lambda keys: pa.array([1, *keys, 2], pa.int64())[1:-1],
    "Arrow chunks": lambda keys: pa.chunked_array([keys[:1], keys[1:]], pa.int64()),
    "Arrow dictionary": lambda keys: pa.array(keys, pa.int64()).dictionary_encode(),
}
