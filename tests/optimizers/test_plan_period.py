"""How often batches begin, as a part of a plan: merged, amended, refused, written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Cluster, Plan
from optimizers.control.plan_outline import PlanOutline
from optimizers.control.remembering import parts_of
from optimizers.errors import InvalidValueError, PlanConflictError

PERIODS = st.none() | st.floats(0.0, 1e6)


@given(PERIODS, PERIODS)
def test_two_plans_agree_or_one_of_them_says_nothing_or_they_conflict(first, second):
    left, right = Plan(period=first), Plan(period=second)

    if first is None or second is None or first == second:
        assert (second if first is None else first) == (left | right).period
        assert left | right == right | left
    else:
        with pytest.raises(PlanConflictError, match="two plans decide the seconds of 'period'"):
            left | right


@given(PERIODS, PERIODS)
def test_a_decision_wins_and_what_it_does_not_mention_stays(now, decided):
    later = Plan(period=now).amended(Plan(period=decided), Cluster.uniform(1))

    assert (now if decided is None else decided) == later.period


@given(PERIODS)
def test_it_is_written_and_read_and_outlined(period):
    plan = Plan(period=period)

    assert plan == Plan.from_json(plan.to_json())
    assert period == PlanOutline.of(plan).period
    assert bool(plan) == bool(PlanOutline.of(plan)) == (period is not None)
    assert ("period" in repr(plan)) == (period is not None)
    assert [] == list(parts_of(plan)) or period is not None


@pytest.mark.parametrize("period", [-1.0, float("nan"), float("inf"), "2", True])
def test_what_is_no_time_is_refused(period):
    with pytest.raises(InvalidValueError, match="period="):
        Plan(period=period)
