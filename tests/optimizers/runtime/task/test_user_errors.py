"""What functions of the user's raise, in one line: what, where, and only if it was theirs."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from optimizers import Cluster, Optimizer, Topology
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.folds import each_row
from optimizers.folds.rows import as_batches
from optimizers.runtime.task.user_errors import raised_by, said

ROWS = pa.record_batch({"x": [1, 0]})


class OddOneError(ValueError):
    """An own class of errors, with a message of several lines."""


def inverse(row):
    return {"x": _divided(1, row["x"])}


def _divided(one, other):
    return one / other


def in_a_library(batch):
    return pc.cast(batch.column("nothing"), pa.int8())


def in_a_generator(batch):
    yield batch
    raise OddOneError("one\n  two")


def raised_in(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # of any kind
        list(as_batches(function)(ROWS))
    return raised_by("operator 'o'", caught.value)


@pytest.mark.parametrize(
    ("function", "line", "words"),
    [
        (each_row(inverse), _divided, "ZeroDivisionError: division by zero"),
        (in_a_library, in_a_library, "KeyError: 'Field \"nothing\" does not exist in schema'"),
        (in_a_generator, in_a_generator, f"{__name__}.OddOneError: one two"),
    ],
)
def test_it_is_told_with_its_type_its_message_and_the_line_of_the_users_own(function, line, words):
    last = max(number for *_, number in line.__code__.co_lines() if number)

    told = str(raised_in(function))

    assert f"operator 'o' raised {words}, at {__file__}:{last} in {line.__name__}" == told


def test_what_no_function_of_the_users_raised_is_blamed_on_none():
    with pytest.raises(KeyError) as ours:
        ROWS.schema.field("nothing")
    with pytest.raises(IndexError) as raised:
        list(as_batches(ROWS.column)(7))  # no line of theirs is in it

    assert raised_by("operator 'o'", ours.value) is not None  # it is a line of this file
    assert raised_by("operator 'o'", raised.value) is None


def test_a_message_is_one_line_and_not_endless():
    assert said(KeyError()) == "KeyError"
    assert said(ValueError("a\n\tb")) == "ValueError: a b"
    assert len(said(ValueError("x" * 10_000))) < 600


class Greedy(Optimizer):
    """Fails in a function of its own."""

    def plan(self, topology, cluster, statistics, current):
        _divided(1, 0)


def test_a_strategy_that_raises_is_told_with_its_line():
    question = Question(Topology.source("s"), Cluster.uniform(1))

    refused = ask(Greedy(), question).refused

    line = max(number for *_, number in _divided.__code__.co_lines() if number)
    where = f"at {__file__}:{line} in _divided"
    assert refused == f"Greedy raised ZeroDivisionError: division by zero, {where}"
