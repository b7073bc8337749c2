"""The shipped suite for groupings: each of its tests catches a grouping with a fault."""

import math
import re

import faulty_dispatchers as dispatching
import faulty_groupings as faulty
import planted_faults
import pytest

from optimizers.testing import GroupingContract

TESTS = [name for name in dir(GroupingContract) if name.startswith("test_")]

VALUE = "test_is_a_value"
JSON = "test_passes_through_json"
FIELDS = "test_refuses_a_document_with_a_field_too_many"
EXISTS = "test_each_tuple_goes_to_an_instance_that_exists"
CUT = "test_how_the_stream_is_cut_changes_nothing"
CONTAINER = "test_the_same_keys_go_the_same_way_in_every_container"
SHARED = "test_routers_share_nothing"
OWNER = "test_a_key_has_one_owner_where_that_is_promised"
SPREAD = "test_the_tuples_of_a_key_are_spread_as_evenly_as_promised"
ALONE = "test_it_leaves_its_arguments_and_answers_alone"
KEYLESS = "test_it_does_without_keys_it_does_not_need"
BATCH = "test_refuses_what_is_no_batch_and_is_as_it_was"
NUMBERS = "test_refuses_numbers_that_fit_no_sender"
ELSEWHERE = "test_gives_the_same_answers_in_another_process"
NETWORK = "test_dispatchers_choose_instances_that_exist_in_any_network"
TWICE = "test_a_message_that_comes_twice_counts_once"
TRAVEL = "test_messages_travel"
AGAIN = "test_dispatchers_share_nothing"
DEAF = "test_as_long_as_it_hears_nothing_it_spreads_a_key_as_promised"
FOREIGN = "test_refuses_what_no_instance_sends"
MESSAGE = "test_a_foreign_message_is_refused_or_changes_nothing"

AT_HOME = [name for name in TESTS if name != ELSEWHERE]
ALL = math.inf
RANDOM = [VALUE, JSON, CUT, CONTAINER, KEYLESS, BATCH, ALONE, ELSEWHERE]

BAD = {
    # the grouping: its spread, the tests that must fail (the first is meant for it), words of it
    faulty.EqualToItselfOnly(): (ALL, [VALUE, JSON, ALONE], ["not equal to itself"]),
    faulty.OfAnotherHash(): (ALL, [VALUE], ["has another hash", "of equal hash"]),
    faulty.HoldsAFunction(): (ALL, [VALUE, ELSEWHERE], ["does not pass through pickle"]),
    faulty.ForgetsAField(2): (
        ALL,
        [JSON],
        ["written as JSON and read, it is ForgetsAField(step=1"],
    ),
    faulty.TakesAnyField(): (ALL, [FIELDS], ["no_such_field", "is not refused"]),
    faulty.OneTooFar(): (ALL, [EXISTS], ["a tuple was sent to instance"]),
    faulty.OneTooFew(): (ALL, [EXISTS, CUT, ALONE], ["shape (300,)"]),
    faulty.Fractions(): (ALL, [EXISTS], ["array of float64", "int32"]),
    faulty.BeginsAgainWithEachBatch(): (ALL, [CUT], ["in batches of", "tuples go to"]),
    faulty.CountsEmptyBatches(): (ALL, [CUT], ["in batches of"]),
    faulty.ByTheWord(): (1, [CONTAINER], ["given as an Arrow dictionary array"]),
    faulty.OneTotal(): (ALL, [SHARED, *RANDOM], ["beside another router"]),
    faulty.AtRandom(): (ALL, [VALUE, SHARED, SPREAD, *RANDOM], ["pickled, tuples go to"]),
    faulty.AnOwnerForEachSender(): (1, [OWNER], ["promises one_owner", "key"]),
    faulty.OwnsWithoutKeys(): (1, [OWNER], ["needs none", "needs_key = True"]),
    faulty.CountsTheOtherLoad(): (2, [SPREAD], ["tuples of one key went to 1 of"]),
    faulty.OneBuffer(): (ALL, [ALONE], ["changed an earlier answer"]),
    faulty.Counts(): (ALL, [ALONE, VALUE], ["was changed by its router"]),
    faulty.Peeks(): (ALL, [KEYLESS, CUT], ["that it does not need"]),
    faulty.NeedsNoneItSays(): (1, [KEYLESS], ["chooses by a key"]),
    faulty.TakesAnyRows(): (ALL, [BATCH], ["rows=-1 is not refused"]),
    faulty.TakesAnyKeys(): (1, [BATCH], ["keys is not refused"]),
    faulty.RefusesByForeignErrors(): (1, [BATCH], ["refused by KeyError", "InvalidKeyError"]),
    faulty.CountsRefusedBatches(): (ALL, [BATCH], ["after refusals"]),
    faulty.MadeForAnyNumber(): (ALL, [NUMBERS], ["is not refused"]),
    dispatching.DeafAllTheSame(): (ALL, [FOREIGN], ["a dispatcher of what does not listen"]),
    faulty.ByBuiltinHash(): (1, [ELSEWHERE], ["PYTHONHASHSEED", "hash()"]),
    dispatching.SendsNowhere(): (ALL, [NETWORK], ["to instance -1 of"]),
    dispatching.AnswersOthers(): (
        ALL,
        [NETWORK, VALUE, JSON, TWICE, TRAVEL, AGAIN, ELSEWHERE, DEAF, MESSAGE],
        ["a reporter sent", re.compile(r"to sender \d+ of \d+")],
    ),
    dispatching.HearsTwice(): (ALL, [TWICE], ["where messages come twice"]),
    dispatching.MessagesStayAtHome(): (ALL, [TRAVEL], ["pickled, Untravelled"]),
    dispatching.BeginsElsewhereEachTime(): (
        ALL,
        [AGAIN, VALUE, JSON, TWICE, TRAVEL, MESSAGE, ELSEWHERE],
        ["asked twice, dispatchers send"],
    ),
    dispatching.FillsTheFirst(): (
        ALL,
        [DEAF],
        [
            # The one or the other, by what Hypothesis comes to first.
            re.compile(r"loads of instances that take turns|went to 1 of \d+ instances, not to"),
        ],
    ),
    dispatching.TakesForeignMessages(): (ALL, [MESSAGE], ["after messages that are none"]),
    dispatching.TakesForeignWork(): (ALL, [FOREIGN], ["took {'sender': -1}", "to -1"]),
}


def suite_for(of, evenly):
    """Return the suite for a grouping, as its author would write it."""

    class Suite(GroupingContract):
        grouping = of
        spread = evenly
        examples = None

    return Suite()


@pytest.fixture(autouse=True)
def as_many_as_for_ours(monkeypatch):
    monkeypatch.setattr(dispatching.RemembersAll, "made", [7])
    with planted_faults.as_many_as(GroupingContract):
        yield


def failures(suite, tests=TESTS):
    return planted_faults.failures(suite, tests)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
def test_a_faulty_grouping_fails_the_test_that_is_for_it_in_words_that_help(bad):
    evenly, expected, words = BAD[bad]

    # A process takes half a second, and what fails at home need not be asked abroad as well.
    tests = TESTS if ELSEWHERE in expected else AT_HOME
    if isinstance(bad, dispatching.BeginsElsewhereEachTime):
        # There it is counted from 0, here from 7: later the two could be alike by chance.
        tests = [ELSEWHERE, *AT_HOME]

    found = failures(suite_for(bad, evenly), tests)

    assert sorted({*expected}) == sorted(found)
    said = found[expected[0]]
    patterns = [word if isinstance(word, re.Pattern) else re.escape(word) for word in words]
    assert [] == [pattern for pattern in patterns if not re.search(pattern, said)]


@pytest.mark.parametrize("good", [faulty.Right(), dispatching.ListensRight()])
def test_what_the_faults_were_planted_in_passes(good):
    assert {} == failures(suite_for(good, ALL))


def test_each_test_of_the_suite_is_shown_to_catch_something():
    assert {*TESTS} == {expected[0] for _, expected, _ in BAD.values()}
