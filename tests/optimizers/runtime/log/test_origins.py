"""Where batches come from: every batch of every input counts once, or it is said why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import CheckpointError, CorruptDataError, InvalidValueError
from optimizers.runtime.log.origins import (
    Bounded,
    OfStream,
    Progress,
    origin_from,
    origin_to_dict,
)

HISTORY = Progress().after(Bounded()).after(Bounded("monday"))
LIVE = HISTORY.after(OfStream("q", 0, ("5",))).after(OfStream("q", 1, ("9",)))


def test_a_stream_begins_with_its_first_batch_whatever_came_before():
    assert Progress().is_next(OfStream("q", 0))
    assert HISTORY.is_next(OfStream("q", 0))
    assert LIVE.is_next(OfStream("other", 0))


def test_its_batches_come_one_after_the_other_though_others_come_between():
    later = LIVE.after(Bounded("tuesday")).after(OfStream("other", 0))

    assert later.is_next(OfStream("q", 2, ("12",)))
    assert (3, ("monday", "tuesday")) == (later.bounded, later.names)
    assert {"q": 1, "other": 0} == {q: last.number for q, last in later.streams.items()}


def test_a_batch_that_is_cut_is_done_with_its_last_piece():
    begun = HISTORY.after(Bounded("cut", {"s": 30})).after(Bounded("cut", {"s": 60}))

    assert (2, ("monday",)) == (begun.bounded, begun.names)
    assert Bounded("cut", {"s": 60}) == begun.begun
    assert begun.begun == begun.after(OfStream("q", 0)).begun
    assert begun == Progress.from_value(begun.to_dict(), "here")
    done = begun.after(Bounded("cut"))
    assert (3, ("monday", "cut"), None) == (done.bounded, done.names, done.begun)
    assert "begun" not in done.to_dict()


def test_the_last_batch_that_comes_again_is_known():
    assert not LIVE.is_next(OfStream("q", 1, ("9",)))
    assert not LIVE.after(Bounded()).is_next(OfStream("q", 1, ("9",)))


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (OfStream("q", 0, ("5",)), "rows of batches 0 to 1 would count twice; .* is older than"),
        (OfStream("q", 3, ("20",)), "rows of batches 2 to 2 would be lost; .* is newer than"),
        (OfStream("other", 2), "batch 0 of it is next: rows of batches 0 to 1 would be lost"),
        (OfStream("q", 1, ("7",)), "goes up to 7, where it went up to 9 .*these are other rows"),
    ],
)
def test_a_batch_by_which_rows_would_be_lost_or_doubled_is_refused(batch, told):
    with pytest.raises(CheckpointError, match=told):
        LIVE.is_next(batch)


def test_another_stream_is_refused_unless_it_is_further_input():
    LIVE.check_query("q", append=False)
    HISTORY.check_query("q", append=False)
    HISTORY.check_query(None, append=False)
    for query, called in (("other", "other"), (None, "new")):
        LIVE.check_query(query, append=True)
        with pytest.raises(
            CheckpointError, match=rf"\(2 batches of q\), .* another one \({called}\).*append=True"
        ):
            LIVE.check_query(query, append=False)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Bounded(""), "name of a batch ''"),
        (lambda: Bounded(7), "name of a batch 7"),
        (lambda: Bounded("a", {"s": -1}), r"done\['s'\]=-1"),
        (lambda: OfStream("", 0), "query ''"),
        (lambda: OfStream("q", -1), "number=-1"),
        (lambda: OfStream("q", 0, (5,)), "offsets holds 5"),
        (lambda: Progress(0, ("a",)), "bounded=0"),
        (lambda: Progress(2, ("a", "a")), "has a name twice"),
        (lambda: Progress(streams={"p": OfStream("q", 0)}), r"streams\['p'\]"),
        (lambda: Progress(streams={"p": 3}), r"streams\['p'\]=3 is not a batch"),
    ],
)
def test_what_is_no_origin_is_refused(make, told):
    with pytest.raises(InvalidValueError, match=told):
        make()


def test_what_comes_from_elsewhere_is_read_strictly():
    with pytest.raises(CorruptDataError, match="unknown field 'more'"):
        Progress.from_value({**LIVE.to_dict(), "more": 1}, "progress")
    with pytest.raises(CorruptDataError, match="'other' has no batch"):
        origin_from({"query": "other"}, "origin", LIVE)


NAMES = st.text(min_size=1, max_size=3)
INPUTS = st.lists(
    st.tuples(st.just("bounded"), st.none() | NAMES) | st.tuples(st.just("stream"), NAMES),
    max_size=12,
)


@given(INPUTS)
def test_any_inputs_in_any_turn_are_told_apart(inputs):
    progress, done, named, counts = Progress(), 0, [], {}
    for kind, name in inputs:
        if kind == "bounded":
            if name in named:
                with pytest.raises(InvalidValueError, match="twice"):
                    progress.after(Bounded(name))
                continue
            origin = Bounded(name)
            done += 1
            named += [name] if name else []
        else:
            counts[name] = counts.get(name, -1) + 1
            origin = OfStream(name, counts[name], (str(done),))
            assert progress.is_next(origin)
        progress = progress.after(origin)
        again = Progress.from_value(progress.to_dict(), "progress")
        assert progress == again
        assert origin == origin_from(origin_to_dict(origin), "origin", again)
        assert kind == "bounded" or not progress.is_next(origin)
    assert (done, tuple(named)) == (progress.bounded, progress.names)
    assert counts == {query: last.number for query, last in progress.streams.items()}
