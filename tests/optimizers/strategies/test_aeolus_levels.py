"""Aeolus on loads of all shapes: one plan a level, none for noise, and no backlog that grows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from staged_engine import COSTS, StagedEngine

from batching.steadiness import Steadiness
from optimizers import Topology
from optimizers.strategies.aeolus import Aeolus

JOB = (
    Topology.source("s", parallelism=2)
    .then("parse", parallelism=8)
    .then("count", key="k", parallelism=8)
    .then("score", parallelism=8)
    .then("total", key="l", parallelism=8)
)
SECONDS = {"s": 0.0, "parse": 20e-6, "count": 10e-6, "score": 30e-6, "total": 5e-6}
LOW, HIGH = 5_000.0, 40_000.0  # some 75,000/s is the most that 8 cores carry


def on(rate, *, seconds=240, aeolus=None, **settings):
    return StagedEngine(JOB, SECONDS, aeolus or Aeolus(), rate, **settings).run(seconds)


def rescales(engine, after=0.0):
    return [(when, plan) for when, plan in engine.decided if when > after and plan.parallelism]


@given(st.floats(1_000.0, 50_000.0), st.integers(0, 1 << 16))
@settings(max_examples=6)
def test_noise_of_a_tenth_changes_nothing_once_it_is_planned(rate, seed):
    engine = on(lambda _: rate, noise=0.1, seed=seed, seconds=120)

    assert 1 >= len(engine.decided)
    assert engine.backlogs[-1][1] < 3 * rate


@given(
    st.sampled_from([(LOW, HIGH), (HIGH, LOW)]),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 1 << 16),
)
@settings(max_examples=6)
def test_a_step_is_one_rescale_and_what_waited_is_caught_up(levels, noise, seed):
    before, after = levels

    engine = on(lambda now: before if now < 60 else after, noise=noise, seed=seed)

    assert 1 == len(rescales(engine, 60))
    assert 2 >= len(rescales(engine))
    assert max(rows for _, rows in engine.backlogs) < 40 * max(levels)
    assert engine.backlogs[-1][1] < 2 * after


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_ramp_is_a_rescale_a_level_and_no_more(noise):
    engine = on(lambda now: LOW + min(now, 120) / 120 * (HIGH - LOW), noise=noise)

    levels = np.log(HIGH / LOW) / np.log(1.25)
    assert 2 <= len(rescales(engine)) <= levels
    assert [] == rescales(engine, 150)
    assert max(rows for _, rows in engine.backlogs) < 3 * HIGH


@given(st.sampled_from([1.0, 2.0]), st.sampled_from([0.0, 0.1]), st.integers(0, 1 << 16))
@settings(max_examples=6)
def test_a_spike_no_longer_than_the_longest_batch_is_caught_up_without_a_rescale(
    longest, noise, seed
):
    engine = on(
        lambda now: 60_000.0 if 60 < now < 60 + longest else LOW,
        aeolus=Aeolus(longest=longest),
        noise=noise,
        seed=seed,
        seconds=120,
    )

    assert [] == rescales(engine, 30)
    assert engine.backlogs[-1][1] < LOW
    assert max(taken for _, _, taken in engine.spans) < 1.2 * longest


@given(st.floats(0.5, 0.9), st.sampled_from([0.2, 1.0]), st.sampled_from([0.0, 0.1]))
@settings(max_examples=6)
def test_what_cores_carry_is_carried_though_short_batches_would_not(share, longest, noise):
    """At a high load batches are long; a limit of the longest time would let what waits grow."""
    costs = replace(COSTS, base=1.0)
    engine = on(lambda _: share * 75_000, aeolus=Aeolus(longest=longest), costs=costs, noise=noise)

    settled = max(taken for _, _, taken in engine.spans[-10:])
    assert settled > longest
    assert engine.backlogs[-1][1] < 2 * settled * share * 75_000


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_sine_is_followed_by_its_levels(noise):
    engine = on(lambda now: 20_000 + 15_000 * np.sin(now / 60 * 2 * np.pi), noise=noise)

    a_period = 2 * np.log(35 / 5) / np.log(1.25)
    assert len(rescales(engine)) <= 4 * a_period
    assert max(rows for _, rows in engine.backlogs) < 3 * 35_000


def test_beyond_what_cores_carry_it_says_so_and_plans_for_what_they_do():
    engine = on(lambda _: 200_000.0, seconds=60)

    notes = " ".join(str(note) for _, plan in engine.decided for note in plan.notes)
    assert "8 cores carry" in notes
    assert "cores would do" in notes
    assert all(rows <= 8 * 75_000 for _, rows, _ in engine.spans[20:])


def test_a_cost_that_was_mistaken_is_corrected_by_what_batches_take():
    engine = StagedEngine(JOB, SECONDS, Aeolus(), lambda _: LOW)
    engine.run(60)
    engine.seconds = {name: 10 * each for name, each in SECONDS.items()}  # it got slower

    engine.run(400)

    assert 1 == len(rescales(engine, 60))
    assert engine.backlogs[-1][1] < 2 * LOW


def test_state_moves_only_where_that_gains_much():
    """At first 8 keyed instances are nearly as good as 7: they stay, and others are fused."""
    engine = on(lambda _: HIGH * 1.4, seconds=60)

    moved = {name for _, plan in engine.decided for name in plan.parallelism}
    assert not moved & {"count", "total"}


class TestSteadiness:
    def test_the_first_level_is_what_was_seen(self):
        assert 5.0 == Steadiness().level(None, [1.0, 5.0])

    @given(st.lists(st.floats(0.8, 1.25), min_size=1), st.integers(1, 5))
    def test_within_the_band_nothing_changes(self, seen, patience):
        steady = Steadiness(band=0.25, patience=patience)

        assert steady.level(100.0, [100 * each for each in seen]) is None

    @given(
        st.lists(st.floats(0.1, 10.0) | st.floats(0.1, 0.7), min_size=1, max_size=9),
        st.integers(1, 4),
        st.integers(1, 3),
    )
    def test_all_of_the_last_must_be_off_on_one_side(self, seen, patience, calm):
        found = Steadiness(band=0.25, patience=patience, calm=calm).level(1.0, seen)

        last, longer = seen[-patience:], seen[-patience * calm :]
        above = all(each > 1.25 for each in last) and len(seen) >= patience
        below = all(each < 0.8 for each in longer) and len(seen) >= patience * calm
        assert (found is not None) == (above or below)
        if found is not None:
            assert min(longer) <= found <= max(longer)

    def test_for_less_it_plans_for_the_highest_but_a_tenth(self):
        steady = Steadiness(patience=1, calm=20)

        assert 50 == steady.level(100.0, [10.0] * 17 + [50.0] * 3)
        assert 10 == steady.level(100.0, [10.0] * 18 + [50.0] * 2)
