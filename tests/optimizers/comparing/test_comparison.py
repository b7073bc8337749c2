"""What a comparison makes of its facts: figures, marks, sentences, and a document."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import BatchTime, StageTime
from optimizers.comparing import Comparison, DecisionFacts, Difference, Outcome, RunSummary
from optimizers.comparing.metrics import Figure, Measure, size_text
from optimizers.control.part_summaries import EdgeSummary, OperatorSummary
from optimizers.control.summary import Spread
from optimizers.errors import CorruptDataError, InvalidValueError, UnknownNameError


def facts(batch, *, seconds=1.0, local=0.0, remote=100.0, changed=False, loads=(1, 1), hop=True):
    """A batch of a job with a hop between keys."""
    return RunSummary(
        1,
        1000,
        seconds,
        (
            OperatorSummary("in", (1000,), (0.5,)),
            OperatorSummary("count", tuple(loads), (0.0,) * len(loads), spread_by="key"),
        ),
        (EdgeSummary("a", "count", 1000.0, 200.0, 1000.0 * local, None, 200.0 - remote, hop=hop),),
        taken_over=7 if changed else 0,
        first=batch,
        changed=int(changed),
        makespan=seconds / 2,
    )


def outcome(name, batches, **fields):
    return Outcome(name, f"{name}()", tuple(batches), **fields)


def comparison(*variants, warm_up=1, imagined=True):
    return Comparison("test", "in x1", "nowhere", 2, imagined, warm_up, variants)


HASH = outcome("hash", [facts(b, local=0.5) for b in range(6)])
OURS = outcome(
    "ours", [facts(b, local=0.9, remote=20.0, seconds=0.5, changed=b in {2, 4}) for b in range(6)]
)


def cells(text, label):
    """Return what stands behind a label, in each section."""
    lines = [line for line in text.splitlines() if line.strip().startswith(label)]
    return [line.replace(label, "").split() for line in lines]


def test_the_best_of_each_line_is_marked():
    text = comparison(HASH, OURS).table()

    assert [["1,000", "2,000*"]] * 2 == cells(text, "tuples a second")
    assert [["1", "0.5*"]] * 2 == cells(text, "seconds a batch")
    assert [["1.00", "2.00*"]] * 2 == cells(text, "speed beside hash")
    assert [["50.0%", "90.0%*"]] * 2 == cells(text, "tuples that stay on a node")
    assert [["100", "B", "20", "B*"]] * 2 == cells(text, "bytes between nodes, a batch")
    assert [["0", "2"]] == cells(text, "plans changed")
    assert [["0", "14"]] == cells(text, "keys moved")


def test_where_all_are_alike_none_is_marked():
    text = comparison(HASH, outcome("again", HASH.batches)).table()

    assert "*" not in text


def test_what_may_be_chance_is_marked_beside_the_best():
    values = {1.0: Measure(1.0, 0.9, 1.3), 1.2: Measure(1.2, 1.2, 1.2), 1.4: Measure(1.4, 1.4, 1.4)}
    figure = Figure("t", lambda batches, _: values[batches[0]], "{:.1f}".format, more=False)

    assert (True, True, False) == figure.line([[1.0], [1.2], [1.4]]).best
    assert ("1.0 ±20%", "1.2", "1.4") == figure.line([[1.0], [1.2], [1.4]]).cells


def test_where_batches_spend_their_time_is_told_where_it_is_known():
    def timed(batch, work):
        stages = [StageTime(("s",), 2, 1, work=work)]
        time = BatchTime(batch, 10, work + 0.5, 0.25, stages, 0.25)
        return replace(facts(batch), times=(time,))

    slow = outcome("slow", [timed(0, 99.0), *(timed(batch, batch / 8) for batch in (1, 2, 3))])
    none = outcome("none", [facts(batch) for batch in range(4)])
    text = comparison(slow, none).table()

    assert "where a batch's seconds go" in text
    assert [["0.25", "-"]] == cells(text, "work")
    assert [["0.75", "-"]] == cells(text, "all of it")
    assert [] == cells(text, "shuffle")  # which took none
    assert "seconds go" not in comparison(none).table()
    assert comparison(slow) == Comparison.from_json(comparison(slow).to_json())


def test_the_warm_up_is_left_out_of_the_figures():
    slow = outcome("hash", [facts(0, seconds=100.0), *(facts(b) for b in range(1, 4))])
    with_it = outcome("hash", slow.batches[:2])

    assert [["1,000"]] == cells(comparison(slow).table(), "tuples a second")
    assert [["505", "±49%"]] == cells(comparison(with_it, warm_up=0).table(), "tuples a second")


def test_batches_count_as_settled_once_every_plan_has_changed():
    late = outcome("late", [facts(b, changed=b == 3) for b in range(6)])

    assert range(1, 6) == comparison(HASH, OURS).measured
    assert range(3, 6) == comparison(HASH, OURS).settled
    assert range(4, 6) == comparison(HASH, OURS, late).settled
    assert not comparison(HASH).settled
    assert not comparison(outcome("last", [facts(b, changed=b == 5) for b in range(6)])).settled
    early = comparison(outcome("x", [facts(b, changed=b == 1) for b in range(6)]), warm_up=4)
    assert range(4, 6) == early.settled == early.measured
    assert "after plans" not in early.table()
    assert "batches 3 to 5, after plans have changed" in comparison(HASH, OURS).table()
    assert "after plans" not in comparison(HASH).table()


def test_imbalance_is_weighed_by_load():
    uneven = [facts(0), facts(1, loads=(30, 10)), facts(2, loads=(100, 100))]

    (found,) = cells(comparison(outcome("x", uneven)).table(), "busiest count, times the mean")

    assert [f"{(30 * 2 + 100 * 2) / 240:.2f}"] == found


def test_what_is_not_known_of_all_batches_is_not_shown():
    batches = [replace(facts(b), makespan=None if b == 2 else 1.0) for b in range(4)]
    dark = [replace(b, edges=(replace(b.edges[0], local_bytes=None),)) for b in batches]
    found = comparison(outcome("hash", dark), outcome("other", dark))

    assert [["-", "-"]] == cells(found.table(), "makespan of a batch, CPU s")
    assert [["-", "-"]] == cells(found.table(), "bytes between nodes, a batch")


def test_bytes_that_are_not_known_are_not_spoken_of():
    dark = [replace(b, edges=(replace(b.edges[0], local_bytes=None),)) for b in OURS.batches]

    said = comparison(HASH, outcome("ours", dark)).summary()

    assert "hash 50%; that is at 2.00 times the speed." in said


def test_without_keyed_hops_there_is_no_locality():
    alone = [facts(b, hop=False) for b in range(3)]
    found = comparison(outcome("hash", alone), outcome("other", alone))

    assert [["-", "-"]] == cells(found.table(), "tuples that stay on a node")
    assert "keeps" not in found.summary()


def test_the_summary_says_who_keeps_tuples_local_and_what_that_saves():
    said = comparison(HASH, OURS).summary()

    assert "ours keeps 90% of the tuples between keyed operators on their node, hash 50%" in said
    assert "80% fewer bytes between nodes, at 2.00 times the speed" in said
    assert "All results equal those of a sequential run." in said
    assert "All nodes are one machine here" in said
    assert "one machine" not in comparison(HASH, OURS, imagined=False).summary()


def test_the_summary_says_with_whom_tuples_are_done_sooner_where_that_is_known():
    def timed(name, mean):
        spread = Spread(mean, mean, mean, mean)
        return outcome(name, [replace(facts(b), latency=spread) for b in range(6)])

    fast = comparison(timed("hash", 2.5), timed("ours", 0.0125)).summary()
    slow = comparison(timed("hash", 0.25), timed("ours", 0.249)).summary()

    assert "A tuple is done after 12.5 ms on average with ours, after 2.5 s with hash." in fast
    assert "With none of the others a tuple is done notably sooner than with hash." in slow
    assert "done" not in comparison(HASH, timed("ours", 0.1)).summary()
    assert "done" not in comparison(timed("hash", 0.1)).summary()


def test_the_summary_does_not_boast_of_bytes_that_are_not_saved():
    also = outcome("ours", [facts(b, local=0.9, remote=99.0) for b in range(6)])

    assert "that is no fewer bytes between nodes" in comparison(HASH, also).summary()


def test_the_summary_admits_that_nothing_was_gained():
    also = outcome("ours", [facts(b, local=0.51) for b in range(6)])

    assert "None of the others keeps notably more" in comparison(HASH, also).summary()


def test_a_speed_that_may_be_chance_is_not_called_a_difference():
    seconds = [1.0, 0.7, 1.3, 0.9, 1.1, 1.0]
    noisy = outcome("ours", [facts(b, local=0.9, seconds=s) for b, s in enumerate(seconds)])

    assert "at about the same speed" in comparison(HASH, noisy).summary()


def test_wrong_results_cannot_be_overlooked():
    difference = Difference("state of operator 'count'", "k=1", "count", "2", "3")
    wrong = outcome("ours", OURS.batches, difference=difference)
    found = comparison(HASH, wrong)

    assert not found.correct
    assert comparison(HASH, OURS).correct
    assert [["equal", "DIFFERENT"]] == cells(found.table(), "results, beside sequential")
    assert "THE RESULTS OF ours ARE WRONG: state of operator 'count': k=1" in found.summary()
    assert "All results equal" not in found.summary()


def test_a_variant_that_failed_cannot_be_overlooked():
    why = "FoldError: a key is missing in variant 'bad', in batch 3"
    found = replace(comparison(HASH, OURS), failed={"bad": why})

    assert not found.correct
    assert found.summary().endswith(f"bad FAILED and is left out: {why}.")
    assert found == Comparison.from_json(found.to_json())
    with pytest.raises(InvalidValueError, match="variant 'bad' failed: FoldError: a key"):
        found["bad"]
    with pytest.raises(CorruptDataError, match=r"failed\['bad'\] is 7, where a text is expected"):
        Comparison.from_json(found.to_json().replace(f'"{why}"', "7"))


def test_refused_plans_and_planning_time_are_counted():
    said = (
        DecisionFacts(2, applied=False, refused="no node", seconds=0.25, text="x"),
        DecisionFacts(5, applied=True, refused="", seconds=0.5, text="x"),
    )
    text = comparison(outcome("ours", OURS.batches, decisions=said)).table()

    assert [["1"]] == cells(text, "plans refused")
    assert [["0.75"]] == cells(text, "planning, CPU seconds")


NUMBERS = st.floats(0, 1e12)
BATCHES = st.builds(
    RunSummary,
    batches=st.just(1),
    tuples=st.integers(0, 1 << 40),
    seconds=st.floats(0.001, 1e6),
    operators=st.lists(
        st.builds(
            OperatorSummary,
            st.text(),
            st.lists(st.integers(0, 9)).map(tuple),
            st.lists(NUMBERS).map(tuple),
            spread_by=st.sampled_from(["key", "cost", ""]),
        ),
        max_size=2,
    ).map(tuple),
    edges=st.lists(
        st.builds(
            EdgeSummary,
            st.text(),
            st.text(),
            NUMBERS,
            NUMBERS,
            NUMBERS,
            local_bytes=st.none() | NUMBERS,
            hop=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    taken_over=st.integers(0, 1 << 40),
    latency=st.none() | st.builds(Spread, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    changed=st.integers(0, 1),
    makespan=st.none() | NUMBERS,
)
OUTCOMES = st.builds(
    Outcome,
    name=st.text(),
    strategy=st.text(),
    batches=st.lists(BATCHES, min_size=1, max_size=1).map(tuple),
    decisions=st.lists(
        st.builds(DecisionFacts, st.integers(-1), st.booleans(), st.text(), NUMBERS, st.text()),
        max_size=2,
    ).map(tuple),
    difference=st.none() | st.builds(Difference, *[st.text()] * 5, st.integers(1)),
)


@given(
    variants=st.lists(OUTCOMES, min_size=1, max_size=2),
    title=st.text(),
    nodes=st.integers(1),
    imagined=st.booleans(),
    hosts=st.lists(st.text(), max_size=2).map(tuple),
)
def test_a_comparison_is_the_same_after_json(variants, title, nodes, imagined, hosts):
    written = Comparison(title, "job", "here", nodes, imagined, 0, variants, hosts=hosts)

    assert written == Comparison.from_json(written.to_json())
    assert [*hosts] == json.loads(written.to_json())["hosts"]


def test_a_document_with_a_field_too_many_is_refused():
    text = comparison(HASH).to_json().replace('"title"', '"titel"')

    with pytest.raises(CorruptDataError, match="'title' is missing"):
        Comparison.from_json(text)


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ((), "nothing says nothing"),
        ((HASH, outcome("short", OURS.batches[:3])), "did not run the same batches"),
        (
            (outcome("one", HASH.batches[:1]),),
            re.escape("1 batches are not more than the warm_up=1"),
        ),
    ],
)
def test_a_comparison_without_figures_is_refused(variants, message):
    with pytest.raises(InvalidValueError, match=message):
        comparison(*variants)


def test_variants_are_found_by_name():
    found = comparison(HASH, OURS)

    assert found["ours"] is OURS
    with pytest.raises(UnknownNameError, match="unknown variant 'theirs'; known: 'hash', 'ours'"):
        found["theirs"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.23 MB"), (5e9, "5 GB")],
)
def test_sizes_are_written_for_people(size, text):
    assert text == size_text(size)


def decided(*, after=0, refused="", applied=False, idle=()):
    return DecisionFacts(after, applied, refused, 0.0, "text", idle)


BELONG = "the keys of this stream do not belong together"
IDLE = "Osg can do nothing for this job: operator 'a' has one instance"


class TestWhatCannotBeJudged:
    def test_who_has_looked_at_pairs_of_keys_tells_that_they_do_not_belong_together(self):
        ours = outcome("ours", HASH.batches, observes=("pairs",), decisions=[decided()])

        assert f"(50%): {BELONG}" in comparison(HASH, ours).summary()

    @pytest.mark.parametrize(
        "other",
        [
            outcome("ours", HASH.batches, observes=("costs",), decisions=[decided()]),
            outcome("ours", HASH.batches, observes=("pairs",), decisions=[decided(after=-1)]),
            outcome("ours", HASH.batches, observes=("pairs",), decisions=[decided(refused="no")]),
        ],
    )
    def test_who_has_not_does_not(self, other):
        said = comparison(HASH, other).summary()

        assert "None of the others keeps notably more tuples on their node than hash (50%)." in said
        assert BELONG not in said

    def test_who_can_do_nothing_is_not_judged(self):
        osg = outcome("osg", HASH.batches, decisions=[decided(idle=(IDLE,)) for _ in range(3)])

        said = comparison(HASH, osg).summary()

        assert 1 == said.count(f"osg: {IDLE}.")
        assert "None of the others" not in said
        assert "keeps 90%" in comparison(HASH, osg, OURS).summary()

    def test_who_does_something_all_the_same_is(self):
        mixed = outcome(
            "both", HASH.batches, decisions=[decided(idle=(IDLE,)), decided(applied=True)]
        )

        said = comparison(HASH, mixed).summary()

        assert IDLE not in said
        assert "None of the others" in said

    def test_who_fails_is_named_with_the_reason(self):
        reason = "Broken raised ValueError: odd"
        broken = outcome(
            "mine", HASH.batches, decisions=[decided(refused=reason)] * 2 + [decided()]
        )

        said = comparison(HASH, broken).summary()

        assert f"2 of 3 decisions of mine were refused, the first for {reason}." in said

    def test_it_is_kept_in_the_document(self):
        osg = outcome("osg", HASH.batches, observes=("costs",), decisions=[decided(idle=(IDLE,))])
        found = comparison(HASH, osg)

        assert str(found) == str(Comparison.from_json(found.to_json()))
        assert (IDLE,) == Comparison.from_json(found.to_json())["osg"].idle
