"""Messages and parameters of Online Shuffle Grouping that mean nothing are refused."""

import math

import pytest

from grouping.groupings import Fields, OnlineShuffle, PartialKey
from grouping.scheduling.online_shuffle.messages import LoadAnswer, LoadQuestion, Matrices
from sketches.errors import InvalidValueError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"window": 0}, "window=0"),
        ({"window": 1 << 25}, "window=33554432"),
        ({"window": 1.5}, "window=1.5"),
        ({"tolerance": -0.1}, "tolerance=-0.1"),
        ({"tolerance": math.nan}, "tolerance=nan"),
        ({"tolerance": math.inf}, "tolerance=inf"),
        ({"width": 0}, "width=0"),
        ({"depth": 256}, "depth=256"),
        ({"seed": -1}, "seed=-1"),
        ({"resync": 0}, "resync=0"),
        ({"resync": True}, "resync=True"),
        ({"wall_clock": 1}, "wall_clock=1"),
    ],
)
def test_a_parameter_out_of_range_is_refused(arguments, words):
    with pytest.raises(InvalidValueError, match=words):
        OnlineShuffle(**arguments)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LoadQuestion(0, 1.0), "epoch=0"),
        (lambda: LoadQuestion(1, math.nan), "estimate=nan"),
        (lambda: LoadAnswer(-1, 1, 0.0), "instance=-1"),
        (lambda: LoadAnswer(0, 0, 0.0), "epoch=0"),
        (lambda: LoadAnswer(0, 1, math.inf), "delta=inf"),
        (lambda: Matrices(-1, 1, (1,), (1,), 1), "instance=-1"),
        (lambda: Matrices(0, 0, (1,), (1,), 1), "number=0"),
        (lambda: Matrices(0, 1, (-1,), (1,), 1), r"counts\[0\]=-1"),
        (lambda: Matrices(0, 1, (1,), (math.nan,), 1), r"costs\[0\]=nan"),
        (lambda: Matrices(0, 1, (1,), (1, 2), 1), "costs of shape"),
        (lambda: Matrices(0, 1, (1,), (1,), -1), "mean=-1.0 is negative"),
        (lambda: Matrices(0, 1, (1,), (1,), math.nan), "mean=nan"),
    ],
)
def test_a_message_that_means_nothing_cannot_be_made(make, words):
    with pytest.raises(InvalidValueError, match=words):
        make()


def test_a_grouping_that_does_not_listen_says_so():
    for grouping in (Fields(), PartialKey()):
        assert not grouping.listens
        with pytest.raises(InvalidValueError, match=f"a {grouping.kind} grouping hears nothing"):
            grouping.dispatcher(3)
