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
    ("expected", "said"),
    [(1 << 30, None), (2 << 30, "2g"), (512 << 20, "512M"), (3 << 20, "3"), (9 << 10, "9 kb")],
)
def test_memory_is_what_an_executor_was_given(expected, said):
    settings = {} if said is None else {"spark.executor.memory": said}

    assert expected == cores.memory_of_executor(session("yarn", settings))


@pytest.mark.parametrize("said", ["much", "1.5g", "0"])
def test_memory_that_cannot_be_read_is_not_known(said):
    assert cores.memory_of_executor(session("yarn", {"spark.executor.memory": said})) is None
