"""Functions of a job that come from a module which tasks cannot import, or have another one of."""

import importlib
import sys

import pyarrow as pa
import pytest

from optimizers import Topology
from optimizers.errors import MissingPackageError
from optimizers.folds import Count
from optimizers.spark import SparkEngine

pytestmark = pytest.mark.spark

ROWS = pa.table({"word": ["a", "b", "a"]})
FUNCTION = "def keep(batch):\n    return batch\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module beside nothing that workers know of, imported on the driver."""

    def imported(name):
        (tmp_path / f"{name}.py").write_text(FUNCTION, "utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        found = importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, found)
        return found

    return imported


def job_of(function):
    return (
        Topology.source("words", parallelism=1)
        .then("keep", parallelism=1, apply=function)
        .then("count", key="word", parallelism=1, apply=Count())
    )


def test_a_module_that_tasks_cannot_import_is_named_in_one_line(spark, tmp_path, module):
    keep = module("words_of_the_driver").keep
    engine = SparkEngine(checkpoint=tmp_path / "job", spark=spark)

    with pytest.raises(MissingPackageError) as raised:
        engine.run(job_of(keep), spark.createDataFrame(ROWS))

    assert "a task cannot import 'words_of_the_driver'" in str(raised.value)
    assert "addPyFile" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_older_version_of_a_module_is_told_apart(spark, tmp_path, module):
    found = module("words_that_changed")
    spark.sparkContext.addPyFile(str(tmp_path / "words_that_changed.py"))
    found.later = lambda batch: batch
    found.later.__module__, found.later.__qualname__ = found.__name__, "later"
    engine = SparkEngine(checkpoint=tmp_path / "job", spark=spark)

    with pytest.raises(MissingPackageError, match=r"cannot load the functions of the job: .*later"):
        engine.run(job_of(found.later), spark.createDataFrame(ROWS))

    assert 2 == engine.run(job_of(found.keep), spark.createDataFrame(ROWS)).state("count").num_rows
