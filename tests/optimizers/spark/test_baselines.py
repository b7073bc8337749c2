"""Baselines by name, on a workload of a module in the working directory: found, run, and right."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

MODULE = """
import numpy as np
import pyarrow as pa

from optimizers import Topology
from optimizers.folds import Count, Emit, each_row
from optimizers.workloads import Workload


@each_row
def priced(row):
    return {**row, "price": 2 * row["item"]}


def batches(scale, seed):
    rng = np.random.default_rng(seed)
    while True:
        items = rng.zipf(1.5, 2_000).clip(max=500)
        yield {"orders": pa.table({"item": items, "shop": rng.integers(0, 9, len(items))})}


def orders():
    job = (
        Topology.source("orders", parallelism=2)
        .then("priced", parallelism=2, apply=priced, edge_key="item")
        .then("by_item", key="item", partial=True, parallelism=3, apply=Count(emit=Emit.TUPLES))
        .then("by_shop", key="shop", parallelism=2, apply=Count())
    )
    return Workload(name="orders", about="orders", topology=job, stream=batches)
"""


def test_baselines_are_compared_on_a_workload_of_ones_own(tmp_path):
    (tmp_path / "shop.py").write_text(MODULE)
    variants = ["hash", "d-choices", "shortest-queue", "balanced-keys", "full-knowledge"]
    command = [sys.executable, "-c", "from optimizers.cli import main; raise SystemExit(main())"]
    options = ["--batches", "3", "--every", "1", "--cores", "2", "--json", "found.json"]
    named = [word for name in variants for word in ("--with", name)]

    ran = subprocess.run(
        [*command, "compare", "shop:orders", *named, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert 0 == ran.returncode, ran.stderr
    assert all("FullKnowledge() needs the truth" in line for line in ran.stderr.splitlines())
    assert "All results equal those of a sequential run" in ran.stdout
    assert "decisions of full-knowledge were refused" in ran.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    busiest = {variant["name"]: loads(variant) for variant in found["variants"]}
    assert busiest["hash"] > 1.5
    assert busiest["balanced-keys"] < 1.3  # the heaviest key alone is 1.15 times a share
    assert busiest["d-choices"] < 1.1  # heavy keys go to several instances


def loads(variant):
    """How many times the mean the busiest instance had in the last batch."""
    operators = variant["batches"][-1]["operators"]
    (last,) = (found["tuples"] for found in operators if found["operator"] == "by_item")
    return max(last) / (sum(last) / len(last))
