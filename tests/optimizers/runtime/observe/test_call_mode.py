"""How functions are to be called, by what was tried."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.call_mode import SCHEMA, CallMode, Calls, CallTrial


def trial_of(alone, together, *, rows=1_000):
    """Return what is known where a tuple takes so many seconds alone, and so many among others."""
    tried = [{"rows": 1, "alone": True, "seconds": alone}] * (32 if alone is not None else 0)
    tried.append({"rows": rows, "alone": False, "seconds": rows * together})
    trial = CallTrial()
    trial.add(pa.Table.from_pylist(tried, SCHEMA))
    return trial


@pytest.mark.parametrize(
    ("alone", "together", "calls"),
    [
        (1.0, 1.0, Calls(CallMode.APART, 1)),
        (1e-3, 1e-3, Calls(CallMode.APART, 1)),
        (1e-4, 1e-4, Calls(CallMode.APART, 10)),
        (1e-5, 1e-5, Calls(CallMode.APART, 100)),
        (1.4e-5, 1e-5, Calls(CallMode.APART, 72)),
        (1.6e-5, 1e-5, Calls(CallMode.TOGETHER)),
        (1e-6, 1e-8, Calls(CallMode.TOGETHER)),
        (0.0, 0.0, Calls(CallMode.APART, 4096)),
        # What is timed row by row is never tried alone.
        (None, 1.0, Calls(CallMode.UNKNOWN, 1)),
        (None, 1e-5, Calls(CallMode.UNKNOWN, 120)),
        (None, 1.1e-6, Calls(CallMode.UNKNOWN, 1091)),
        (None, 0.0, Calls(CallMode.UNKNOWN, 4096)),
    ],
)
def test_the_less_a_tuple_takes_the_fewer_are_measured(alone, together, calls):
    assert calls == trial_of(alone, together).calls


@given(st.floats(1e-7, 1.0))
def test_to_measure_takes_some_hundredths_of_the_time(each):
    assert 2e-5 / trial_of(each, each).calls.every <= 0.0201 * each or each < 3e-7
    assert 1.2e-5 / trial_of(None, each).calls.every <= 0.0101 * each or each < 3e-7


def test_nothing_is_known_at_first():
    assert Calls() == CallTrial().calls == Calls(CallMode.UNKNOWN, 1)


def test_one_that_cannot_do_with_a_single_tuple_gets_all_together():
    trial = trial_of(1.0, 1.0)
    trial.add(pa.Table.from_pylist([{"rows": 1, "alone": True, "seconds": None}], SCHEMA))

    assert Calls(CallMode.TOGETHER) == trial.calls
