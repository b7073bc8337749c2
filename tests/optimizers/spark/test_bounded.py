"""Which bounded batches are to be run: none twice, and none left out without a word."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.origins import Bounded, Progress
from optimizers.spark.bounded import to_be_run

NOTHING = Progress()


def done(*names):
    progress = NOTHING
    for name in names:
        progress = progress.after(Bounded(name))
    return progress


def begun(cut, *names):
    """The progress after some batches, and a piece of another."""
    return done(*names).after(Bounded(cut, {"in": 5}))


def chosen(batches, progress, *, names=None, **options):
    """The batches that are to be run, with their names; and those that are skipped."""
    skipped = []
    left = list(to_be_run(batches, progress, names=names, skipped=skipped, **options))
    return left, skipped


@pytest.mark.parametrize(
    ("progress", "options", "left", "skipped"),
    [
        (NOTHING, {}, [("A", None), ("B", None)], []),
        (NOTHING, {"resume": True}, [("A", None), ("B", None)], []),
        (done(None), {"resume": True}, [("B", None)], ["0"]),
        (done(None, "b"), {"resume": True}, [], ["0", "1"]),
        (NOTHING, {"names": ["a", "b"]}, [("A", "a"), ("B", "b")], []),
        (done("b"), {"names": ["a", "b"]}, [("A", "a")], ["b"]),
        (done("b"), {"names": ["a", "b"], "append": True}, [("A", "a")], ["b"]),
        (done("b", "a"), {"names": ["a", "b"]}, [], ["a", "b"]),
        (done("b", None, "a"), {"names": ["a", "b"]}, [], ["a", "b"]),
        (done("b", None), {"names": ["a", "b"], "append": True}, [("A", "a")], ["b"]),
        (
            done(None, None),
            {"names": ["a", "b"], "append": True},
            [("A", "a"), ("B", "b")],
            [],
        ),
        (begun("a", None), {"names": ["a", "b"], "append": True}, [("A", "a"), ("B", "b")], []),
        (begun("a"), {"resume": True}, [("A", "a"), ("B", None)], []),
        (begun("b", "x"), {"resume": True}, [("B", "b")], ["0"]),
    ],
)
def test_what_is_run_and_what_is_skipped(progress, options, left, skipped, caplog):
    with caplog.at_level(logging.WARNING):
        assert (left, skipped) == chosen(["A", "B"], progress, **options)

    told = [record.getMessage() for record in caplog.records]
    expected = f"{len(skipped)} batches are done already and were skipped: {', '.join(skipped)}"
    assert ([expected] if skipped else []) == told


@pytest.mark.parametrize(
    ("batches", "progress", "options", "error", "told"),
    [
        ("AB", done(None), {}, CheckpointError, "1 bounded .*resume=True if .*, or names=.*app"),
        ("AB", done("x"), {}, CheckpointError, "resume=True .* or names=.* are skipped"),
        ("AB", done(None), {"names": ["a", "b"]}, CheckpointError, "1 bounded .*batch 'a' may be"),
        ("AB", done("a", None), {"names": ["a", "b"]}, CheckpointError, "1 .*batch 'b' may be"),
        ("AB", begun("a", None), {"names": ["a", "b"]}, CheckpointError, "1 .*batch 'b' may be"),
        ("A", begun(None), {"names": ["a"]}, CheckpointError, "rest: give all batches from the f"),
        ("A", begun("b"), {"names": ["a"]}, CheckpointError, "give batch 'b' first, by names"),
        ("A", NOTHING, {"append": True}, InvalidValueError, "and no names; give names="),
        ("A", NOTHING, {"append": True, "resume": True}, InvalidValueError, "give one of them"),
        ("A", done(None, None), {"resume": True}, CheckpointError, "1 batches are .* and 2 are"),
        ("", done(None), {"resume": True}, CheckpointError, "0 batches are given"),
        ("A", NOTHING, {"names": ["a"], "resume": True}, InvalidValueError, "give one of them"),
        ("AB", NOTHING, {"names": ["a", "a"]}, InvalidValueError, "has 'a' twice"),
        ("AB", NOTHING, {"names": ["a"]}, InvalidValueError, "1 names are given, and 2 batches"),
        (
            "A",
            NOTHING,
            {"names": ["a", "b"]},
            InvalidValueError,
            "2 names are given, and 1 batches",
        ),
        ("A", NOTHING, {"names": [7]}, InvalidValueError, "names holds 7"),
        ("A", NOTHING, {"names": [""]}, InvalidValueError, "names holds ''"),
        ("A", NOTHING, {"names": "a"}, InvalidValueError, "names='a' is not a list"),
    ],
)
def test_what_is_not_known_or_does_not_fit_is_refused_before_anything_is_run(
    batches, progress, options, error, told
):
    skipped = []
    left = to_be_run(list(batches), progress, skipped=skipped, **{"names": None, **options})
    with pytest.raises(error, match=told):
        next(left)


def test_nothing_given_is_nothing_to_be_refused():
    assert ([], []) == chosen([], done(None, None))


def test_batches_that_are_made_one_by_one_are_counted_as_they_come():
    left = to_be_run(iter("AB"), NOTHING, names=["a"], skipped=[])
    assert ("A", "a") == next(left)
    with pytest.raises(InvalidValueError, match="batch 2 has no name, for 1 names are given"):
        next(left)

    left = to_be_run(iter("A"), NOTHING, names=["a", "b"], skipped=[])
    assert ("A", "a") == next(left)
    with pytest.raises(InvalidValueError, match="2 names are given, and 1 batches"):
        next(left)


def test_the_advice_of_a_refusal_counts_no_batch_twice():
    """Monday was run without a name, and now tuesday is to be added."""
    with pytest.raises(CheckpointError, match=r"or names=.* and append=True if none of these is"):
        chosen(["mon", "tue"], done(None))
    with pytest.raises(CheckpointError, match=r"'monday' may be one of them.*append=True; else.*r"):
        chosen(["mon", "tue"], done(None), names=["monday", "tuesday"])

    assert ([("tue", None)], ["0"]) == chosen(["mon", "tue"], done(None), resume=True)
    tuesday = {"names": ["tuesday"], "append": True}
    assert ([("tue", "tuesday")], []) == chosen(["tue"], done(None), **tuesday)
    assert ([], ["tuesday"]) == chosen(["tue"], done(None, "tuesday"), **tuesday)


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.integers(0, 6), st.integers(0, 6))
def test_a_job_that_is_cut_off_anywhere_and_goes_on_runs_each_batch_once(names, first, second):
    ran, progress = [], NOTHING
    for limit in (first, second, 9):
        for (batch, name), _ in zip(
            to_be_run(list(names), progress, names=names, skipped=[]),
            range(limit),
            strict=False,
        ):
            ran.append(batch)
            progress = progress.after(Bounded(name))
    assert names == ran

    ran, progress = [], NOTHING
    for limit in (first, second, 9):
        for (batch, name), _ in zip(
            to_be_run(list(names), progress, names=None, resume=True, skipped=[]),
            range(limit),
            strict=False,
        ):
            ran.append(batch)
            progress = progress.after(Bounded(name))
    assert names == ran
