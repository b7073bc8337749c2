"""Reports of Spark, as text: which error of ours they tell of."""

import traceback

import pytest

from optimizers.errors import (
    DeliveryError,
    FoldError,
    FunctionError,
    InvalidKeyError,
    PartitionError,
    PenstockError,
)
from optimizers.spark.task_errors import causes_noted, error_in, reason_of


def report_of(error, cause=None):
    """What a worker sends of an error that was raised in a task."""
    with pytest.raises(PenstockError) as raised, causes_noted():
        raise error from cause
    raised.value.__cause__ = None  # as Spark's simplified tracebacks do
    text = "".join(traceback.format_exception(raised.value))
    return (
        f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {text}\n\tat some.Java"
    )


@pytest.mark.parametrize("kind", [FoldError, InvalidKeyError, PartitionError, FunctionError])
def test_an_error_is_told_as_what_it_was_in_all_packages(kind):
    error = kind("no way; mend it")
    error.add_note("at a[1] in batch 7")

    told = error_in(report_of(error))

    assert type(told) is kind
    assert str(told) == "no way; mend it (at a[1] in batch 7)"


def test_what_it_came_of_is_in_the_report_and_not_taken_for_it():
    error = FunctionError("operator 'a' raised KeyError: 'x'")
    error.add_note("at a[0] in batch 0")

    report = report_of(error, InvalidKeyError("the cause"))

    assert "sketches.errors.InvalidKeyError: the cause" in report
    assert type(error_in(report)) is FunctionError


def test_tasks_that_read_what_is_gone_are_told_as_tuples_lost():
    assert isinstance(
        error_in("... indeterminate output was failed and retried ..."), DeliveryError
    )


@pytest.mark.parametrize("text", ["", "ValueError: no", "  optimizers.errors.FoldError: indented"])
def test_other_reports_are_none_of_ours(text):
    assert error_in(text) is None


def test_an_error_of_a_kind_that_is_not_known_here_is_one_of_ours_all_the_same():
    told = error_in("batching.errors.OddError: too much")

    assert type(told) is PenstockError
    assert "too much" in str(told)


class Java:
    """A throwable as py4j shows it."""

    def __init__(self, message, cause=None):
        self.message, self.cause = message, cause

    def getMessage(self):  # noqa: N802
        return self.message

    def getCause(self):  # noqa: N802
        return self.cause

    def toString(self):  # noqa: N802
        return "java.io.IOException"


@pytest.mark.parametrize(
    ("throwable", "reason"),
    [
        (Java("outer", Java("Mkdirs failed\n\tat some.Class")), "Mkdirs failed"),
        (Java(None), "java.io.IOException"),
        (Java("x" * 1000), "x" * 300 + "…"),
    ],
)
def test_a_reason_is_the_first_line_of_the_innermost_cause(throwable, reason):
    error = RuntimeError("14,000 characters")
    error.java_exception = throwable

    assert reason_of(error) == reason


def test_what_was_not_foreseen_is_told_in_a_line_as_an_error_of_ours():
    error = KeyError("x\ny")
    error.add_note("at a[1] in batch 7")

    told = error_in(report_of(error))

    assert type(told) is PenstockError
    assert str(told) == (
        r"KeyError: 'x\ny'; Penstock did not foresee this, please report it (at a[1] in batch 7)"
    )


@pytest.mark.parametrize("kind", [MemoryError, ConnectionResetError, FileNotFoundError, EOFError])
def test_what_machines_lack_is_no_defect_of_ours(kind):
    with pytest.raises(kind), causes_noted():
        raise kind
