"""Pages of results: their figures, and that they say what was measured and kept."""

import importlib
import json
import math
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).parent
BENCHMARKS = TESTS / "benchmarks"
RESULTS = TESTS.parent / "docs" / "results"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", autouse=True)
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield


@pytest.fixture(scope="module")
def figures(found):
    return importlib.import_module("figures")


@pytest.fixture
def panel(figures):
    lines = [
        figures.Line(name="a < b", points=[(1.0, 0.2), (10.0, math.nan), (100.0, 0.9)], colour=1),
        figures.Line(name="c", points=[(1.0, 0.0), (100.0, 1.0)], dash=1),
    ]
    return figures.Panel(
        title="R & D",
        x_label="pairs",
        y_label="share",
        lines=lines,
        y_range=(0.0, 1.0),
        x_ticks=[(1.0, "1"), (10.0, "10"), (100.0, "100")],
        logarithmic=True,
    )


def parsed(figure):
    return ET.fromstring(figure)  # noqa: S314  # we drew it


def test_a_figure_is_sound_xml_on_white_with_each_name_once_in_the_legend(figures, panel):
    root = parsed(figures.draw([panel, panel], "two charts"))

    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "two charts" == root.find(f"{SVG}title").text
    assert "#ffffff" == root.find(f"{SVG}rect").get("fill")
    assert root.get("width") == root.find(f"{SVG}rect").get("width")
    assert (1, 1, 2) == (texts.count("a < b"), texts.count("c"), texts.count("R & D"))


def test_a_line_goes_from_the_left_edge_to_the_right_one_and_leaves_out_what_is_not_known(
    figures, panel
):
    root = parsed(figures.draw([panel], "one chart"))

    lines = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in root.iter(f"{SVG}polyline")
    ]
    assert [2, 2] == [len(line) for line in lines]
    (left, bottom), (right, top) = lines[1]
    assert left < 100
    assert 400 < right < 440
    assert (40, 280) == (top, bottom)
    assert lines[0][0][1] == pytest.approx(bottom - 0.2 * (bottom - top), abs=0.1)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 1.4), (1, 2.3), (0, 0.07), (0, 900)])
def test_an_axis_has_a_few_round_ticks_inside_its_range(figures, low, high):
    ticks = figures.round_ticks(low, high)

    assert 4 <= len(ticks) <= 11
    assert low <= ticks[0] <= ticks[-1] <= high
    assert max(len(f"{tick:g}") for tick in ticks) <= 5


@pytest.mark.parametrize("name", ["locality", "osg", "simulation"])
def test_the_page_and_its_figures_are_what_the_kept_data_says(tmp_path, name):
    page = importlib.import_module(f"{name}_report").PAGE
    shutil.copytree(RESULTS, tmp_path / "results")
    written = [f"{name}.md", *(f"{figure}.svg" for figure in page.figures)]

    page.main("", ["--write", "--folder", str(tmp_path / "results")])

    changed = [
        file
        for file in written
        if (RESULTS / file).read_text() != (tmp_path / "results" / file).read_text()
    ]
    assert [] == changed
    assert sorted(page.parts) == sorted(p.stem for p in (RESULTS / name).iterdir())


SESSIONS = {
    "local Spark, cores: 1": "local",
    "local Spark, cores: 2": "local",
    "two hosts of a core": "hosts",
}
"""The sessions in which batches of Spark were measured, and the data kept of each."""


@pytest.fixture(scope="module")
def measured_sessions():
    """By the name of a session: its cells, what was measured and what is simulated."""
    tables = importlib.import_module("batches_tables")
    found = {}
    for part in ("local", "hosts"):
        kept = json.loads((RESULTS / "simulation" / f"{part}.json").read_text())
        for name, *session in tables.sessions(kept, hosts=part == "hosts"):
            found[name] = session
    return found


def test_batches_were_measured_in_all_sessions(measured_sessions):
    assert {*SESSIONS} == {*measured_sessions}
    assert all(len(cells) >= 36 for cells, _, _ in measured_sessions.values())


@pytest.mark.parametrize("name", SESSIONS)
def test_simulated_batches_take_what_measured_ones_took(measured_sessions, name):
    check = importlib.import_module("batches_check")
    _, seconds, said = measured_sessions[name]

    assert np.median(check.errors(said, seconds)) <= 0.1


@pytest.mark.parametrize("name", SESSIONS)
def test_of_two_ways_to_do_the_same_work_the_faster_one_is_known(measured_sessions, name):
    check = importlib.import_module("batches_check")
    cells, seconds, said = measured_sessions[name]
    right, pairs = check.in_order(cells, said, seconds, 0.1)  # that are a tenth apart, or more

    assert pairs >= 10
    assert right / pairs >= 0.9


def test_a_part_is_measured_kept_and_written_into_the_page(tmp_path):
    report = importlib.import_module("locality_report").PAGE
    before, after = "# Page\n<!-- table: loads -->\nold\n", "<!-- end of table -->\nthe end\n"
    (tmp_path / "locality.md").write_text(before + after)

    report.main("", ["loads", "--scale", "0.001", "--folder", str(tmp_path)])

    text = (tmp_path / "locality.md").read_text()
    assert text.startswith("# Page\n<!-- table: loads -->\n| keys weighed by |")
    assert text.endswith("|\n" + after)
    assert "old" not in text


def test_a_page_without_a_place_for_a_table_is_refused(tmp_path):
    report = importlib.import_module("locality_report").PAGE
    (tmp_path / "locality.md").write_text("# Page\n")

    with pytest.raises(ValueError, match="no place for table 'loads'"):
        report.main("", ["loads", "--scale", "0.001", "--folder", str(tmp_path)])
