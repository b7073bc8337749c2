"""A job that counts by one key and then by another, and twenty rows for it."""

import pyarrow as pa

from optimizers import Operator, Topology
from optimizers.folds import Count, Emit

TUPLES = Count(emit=Emit.TUPLES)


def job(parallelism=3, grouping=None):
    operator = Operator("a", "k", parallelism, apply=TUPLES, key_groups=16)
    return Topology.source("s").then(operator, grouping=grouping).then("b", key="l", parallelism=2)


def rows(*keys):
    return {"s": pa.table({"k": pa.array(keys, pa.int64()), "l": pa.array(keys, pa.int64())})}


TWENTY = rows(*range(20))
