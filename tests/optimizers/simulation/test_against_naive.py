"""The engine against a simulation that goes from event to event in the plainest way there is."""

from hypothesis import given, settings
from naive_jobs import DELAYS, NETWORKS, cases, changing, check


@settings(max_examples=50)
@given(cases(listening=False))
def test_what_is_routed_is_served_as_event_by_event(case):
    check(case)


@settings(max_examples=60)
@given(cases(listening=False, networks=NETWORKS))
def test_links_and_the_costs_of_sending_are_as_event_by_event(case):
    check(case)


@settings(max_examples=60)
@given(cases())
def test_what_listens_hears_and_chooses_as_event_by_event(case):
    check(case)


@settings(max_examples=80)
@given(cases(networks=DELAYS))
def test_what_listens_over_links_hears_and_chooses_as_event_by_event(case):
    check(case)


@settings(max_examples=50)
@given(cases(networks=NETWORKS, batches=(1, 2, 3)))
def test_all_of_it_together_is_as_event_by_event(case):
    check(case)


@settings(max_examples=50)
@given(cases(networks=NETWORKS, batches=(1, 2), cores=1))
def test_instances_take_turns_on_one_core_as_event_by_event(case):
    check(case)


@settings(max_examples=50)
@given(changing(networks=DELAYS))
def test_plans_that_change_apply_to_what_is_sent_from_then_on(scenario):
    case, every, plans = scenario
    check(case, every, plans)


@settings(max_examples=50)
@given(changing(networks=NETWORKS, batches=(1, 1, 2, 3)))
def test_plans_that_change_all_of_it_apply_from_then_on(scenario):
    case, every, plans = scenario
    check(case, every, plans)


@settings(max_examples=50)
@given(changing(networks=NETWORKS, batches=(2, 3), first=(1,)))
def test_a_run_can_go_on_from_event_to_event(scenario):
    case, every, plans = scenario
    check(case, every, plans)


@settings(max_examples=75)
@given(changing(cores=1))
def test_instances_that_move_end_where_they_are_and_wait_where_they_will_be(scenario):
    case, every, plans = scenario
    check(case, every, plans)


@settings(max_examples=75)
@given(changing(batches=(1,), first=(1,), cores=1))
def test_a_run_in_which_nothing_was_shared_can_go_on_with_shared_cores(scenario):
    case, every, plans = scenario
    check(case, every, plans)
