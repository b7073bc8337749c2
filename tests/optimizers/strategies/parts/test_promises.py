"""What moves lacked of the local traffic that they promised."""

import pytest

from optimizers.notes import Note
from optimizers.past import Past, PastDecision, PastEpoch
from optimizers.strategies.parts.promises import overpromised


def epoch(number, then, now=None, moved=0.0, by="Albic"):
    figures = {"local then": then, "local now": then if now is None else now, "bytes": moved}
    parts = (("placement", "a"),) if moved else ()
    notes = (Note(by, "the job", "moves", figures),)
    return PastEpoch(number, decision=PastDecision(parts, applied=bool(moved), notes=notes))


@pytest.mark.parametrize(
    ("epochs", "local", "lacking"),
    [
        pytest.param([], 0.5, 0.0, id="nothing is remembered"),
        pytest.param([epoch(0, 0.3, 0.7, 20.0)], 0.7, 0.0, id="kept"),
        pytest.param([epoch(0, 0.3, 0.7, 20.0)], 0.6, 0.5, id="a tenth lacks, a fifth has moved"),
        pytest.param([epoch(0, 0.3, 0.7, 20.0)], 0.9, 0.0, id="more than was promised"),
        pytest.param(
            [epoch(0, 0.3, 0.7, 20.0), epoch(1, 0.6, 0.8, 50.0)], 0.75, 0.3, id="the mean of two"
        ),
        pytest.param([epoch(0, 0.3, 0.7, 20.0), epoch(1, 0.6)], 0.1, 0.5, id="the next epoch only"),
        pytest.param([epoch(0, 0.3, 0.7, 20.0, by="Readj")], 0.1, 0.0, id="another's promise"),
        pytest.param([epoch(0, 0.3, 0.7)], 0.1, 0.0, id="nothing was moved"),
    ],
)
def test_what_lacks_is_told_for_each_share_of_the_state_that_moved(epochs, local, lacking):
    assert overpromised(Past(tuple(epochs)), "Albic", 100.0, local) == pytest.approx(lacking)
