"""What an executor has: how many processes share its memory of state, and how much it is."""

from types import SimpleNamespace

import pytest

from optimizers.spark import cores


def session(master, settings=None, parallelism=12):
    """A session as far as it is asked here."""
    conf = {"spark.master": master, **(settings or {})}
    context = SimpleNamespace(
        master=master,
        defaultParallelism=parallelism,
        getConf=lambda: SimpleNamespace(get=lambda name, default=None: conf.get(name, default)),
    )
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(
    ("expected", "master", "settings"),
    [
        (1, "local", {}),
        (3, "local[3]", {}),
        (4, "local[4, 2]", {"spark.executor.cores": "9"}),
        (2, "local[4]", {"spark.task.cpus": "2"}),
        (1, "local[1]", {"spark.task.cpus": "2"}),
        (5, "local-cluster[2,5,1024]", {}),
        (1, "yarn", {}),
        (8, "yarn", {"spark.executor.cores": "8"}),
        (1, "k8s://https://host", {}),
        (4, "spark://host:7077", {"spark.executor.cores": "8", "spark.task.cpus": "2"}),
        (12, "spark://host:7077", {}),  # all there are, so that it is never too much
    ],
)
def test_as_many_tasks_run_at_once_as_an_executor_has_room_for(expected, master, settings):
    assert expected == cores.tasks_at_once(session(master, settings))


def test_all_cores_of_this_machine_are_counted(monkeypatch):
    monkeypatch.setattr(cores.os, "cpu_count", lambda: 6)

    assert 6 == cores.tasks_at_once(session("local[*]"))


@pytest.mark.parametrize(
    ("expected", "master", "settings"),
    [
        (12, "local[*]", {}),
        (6, "local[*]", {"spark.task.cpus": "2"}),
        (3, "local[3]", {"spark.default.parallelism": "12"}),
        (1, "local[3]", {"spark.default.parallelism": "12", "spark.task.cpus": "2"}),
        (12, "spark://host:7077", {}),
    ],
)
def test_slots_are_of_cores_whatever_number_of_partitions_is_the_default(
    expected, master, settings
):
    assert expected == cores.slots_of(session(master, settings))


GIB, MIB = 1 << 30, 1 << 20
PYTHON = {"spark.executor.pyspark.memory": "3g"}
OVERHEAD = {"spark.executor.memoryOverhead": "700"}


@pytest.mark.parametrize(
    ("expected", "settings"),
    [
        (GIB + 384 * MIB, {}),  # at least, so that small executors have room for themselves
        (8 * GIB * 1.1, {"spark.executor.memory": "8g"}),
        (
            8 * GIB * 1.5,
            {"spark.executor.memory": "8G", "spark.executor.memoryOverheadFactor": 0.5},
        ),
        (GIB + 512 * MIB, {"spark.executor.minMemoryOverhead": "512m"}),
        (GIB + 700 * MIB, OVERHEAD),
        (4 * GIB + 700 * MIB, OVERHEAD | PYTHON),
        (GIB + 700 * MIB, OVERHEAD | {"spark.memory.offHeap.size": "9g"}),  # which is off
        (
            GIB + 700 * MIB + 4096,
            OVERHEAD
            | {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "4096"},
        ),
        (703 * MIB, OVERHEAD | {"spark.executor.memory": "3"}),
        (700 * MIB + 9216, OVERHEAD | {"spark.executor.memory": "9 kb"}),
        (700 * MIB + 4096, OVERHEAD | {"spark.executor.memory": "4096b"}),
    ],
)
def test_yarn_holds_an_executor_to_what_was_asked_for(expected, settings):
    assert expected == cores.memory_of_executor(session("yarn", settings))


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://https://host", "local[2]"])
def test_elsewhere_only_python_that_has_a_bound_bounds_an_executor(master):
    assert cores.memory_of_executor(session(master, {"spark.executor.memory": "2g"})) is None
    assert 4 * GIB == cores.memory_of_executor(session(master, PYTHON))


@pytest.mark.parametrize("said", ["much", "1.5g", "0"])
def test_memory_that_cannot_be_read_is_not_known(said):
    settings = {"spark.executor.memory": said, **PYTHON}

    assert cores.memory_of_executor(session("yarn", settings)) is None
