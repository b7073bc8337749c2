"""What Spark is told of the error of a batch: one line, and of an interruption its own words."""

import logging
import re

import pytest

from optimizers.errors import FoldError
from optimizers.spark.stream_errors import as_batch_failed, is_interruption

# How Spark itself looks for it, in `StreamExecution`; over much text this overflows Java's stack.
PROXY_ERROR = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling"
    r"((.|\r\n|\r|\n)*)"
    r"(java.lang.InterruptedException|java.io.InterruptedIOException)"
)

STOPPED = [
    RuntimeError(
        "An error occurred while calling o71.x.\n: java.lang.InterruptedException\n\tat a.B"
    ),
    RuntimeError("Job 4 cancelled part of cancelled job group 7f"),
    OSError("java.nio.channels.ClosedByInterruptException"),
]


@pytest.mark.parametrize("error", STOPPED)
def test_an_interruption_is_told_in_the_words_that_spark_knows_and_no_others(error):
    told = str(as_batch_failed(error))

    assert is_interruption(error)
    assert PROXY_ERROR.fullmatch(told)
    assert len(told) < 150


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            FoldError("no InterruptedException;\n mend it"),
            "FoldError: no InterruptedException; mend",
        ),
        (ValueError("x"), "ValueError: x"),
        (ValueError("x" * 100_000), "ValueError: xxx"),
    ],
)
def test_other_errors_are_one_short_line(error, line):
    told = str(as_batch_failed(error))

    assert not is_interruption(error)
    assert line in told
    assert "\n" not in told
    assert len(told) < 600


@pytest.mark.parametrize(("error", "said"), [(as_batch_failed(FoldError("x")), 0), (KeyError(), 1)])
def test_py4j_does_not_log_again_what_spark_is_told(caplog, monkeypatch, error, said):
    def call():
        told = "There was an exception while executing the Python Proxy on the Python Side."
        logging.getLogger("py4j.clientserver").error(told, exc_info=error)

    call()
    assert len(caplog.records) == said
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")
    call()
    assert len(caplog.records) == said + 1
