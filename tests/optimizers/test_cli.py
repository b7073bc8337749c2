import re
import subprocess
import sys

import pytest

from optimizers import __version__
from optimizers.cli import main
from optimizers.tour import make_stream, measure, tour


def test_the_tour_shows_its_four_stops(capsys):
    assert main(["tour"]) == 0

    shown = capsys.readouterr().out
    for stop in ("1. What is", "2. Which instance", "3. What else", "4. What has to move"):
        assert stop in shown
    assert "never too low" in shown
    by_hash, planned = (int(share) for share in re.findall(r"(?:hash|planned): (\d+)%", shown))
    assert 20 <= by_hash <= 30  # one in four, on four machines
    assert planned >= 2 * by_hash
    assert "two plans decide the parallelism of 'by_place': 7 and 6" in shown
    assert "by_place: 4 -> 7 instances" in shown


def test_the_tour_is_the_same_every_time_but_for_its_speeds():
    def figures():
        return [finding.cells()[:4] + finding.cells()[5:] for finding in measure(stream)]

    stream = make_stream(seed=3, tuples=20_000)

    assert figures() == figures()


def test_the_tour_sees_what_its_sketches_promise():
    findings = {finding.sketch: finding for finding in measure(make_stream(7, 1_000_000))}

    assert findings["CountMin"].quality.startswith("never too low")
    assert findings["SpaceSaving"].quality.startswith("100% of the heaviest")


def test_a_wrong_seed_is_one_line_with_the_remedy_and_exit_code_2(capsys):
    assert main(["tour", "--seed", "-3"]) == 2

    complaint = capsys.readouterr().err
    assert complaint.startswith("penstock: seed=-3 is out of range")
    assert complaint.count("\n") == 1


def test_a_short_stream_can_be_toured_as_well():
    assert any("SpaceSaving" in line for line in tour(seed=1, tuples=1_000))


@pytest.mark.parametrize("arguments", [[], ["no-such-command"]])
def test_a_missing_or_unknown_command_ends_with_the_usage(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)

    assert "usage: penstock" in capsys.readouterr().err


def test_it_is_installed_as_a_command():
    code = "from importlib.metadata import entry_points as e; print(*e(name='penstock'))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "optimizers.cli:main" in shown.stdout


def test_it_tells_its_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])

    assert capsys.readouterr().out.strip() == f"penstock {__version__}"
