"""Nodes are acquired and given back as plans want: once, told, and never before they are empty."""

import logging

import pytest
from clouds import Cloud, Patient, cluster_of
from hypothesis import event, given
from hypothesis import strategies as st

from optimizers import Deployment, Node, Plan, Topology
from optimizers.control.provisioning import Provisioner, Provisioning, kept_by
from optimizers.layout import Layout

PATIENCE = 300.0


def texts(told):
    return [note.text for decision in told for note in decision.notes]


def test_a_cloud_is_a_provisioner_by_its_two_methods():
    assert isinstance(Cloud(), Provisioner)
    assert not isinstance(object(), Provisioner)


class TestAcquiring:
    def test_asks_once_for_a_node_that_comes_under_another_name_and_again_if_that_one_goes(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        wanted = Plan(add=(Node("c"),))
        asked = []
        for names in ("ab", "ab", "abz", "abz", "abz", "ab", "aby", "aby", "abyc"):
            provisioning.settle(wanted, cluster_of(*names), (), 0, 0.0)
            asked.append(cloud.asked)

        assert [1, 1, 1, 1, 1, 2, 2, 2, 2] == asked

    def test_lets_no_more_nodes_stand_in_than_were_asked_for(self):
        provisioning = Provisioning(Cloud())
        adding = Plan(nodes=2, add=(Node("c"), Node("d")))
        provisioning.settle(adding, cluster_of("m"), (), 0, 0.0)  # one

        assert {} == provisioning.meet(adding, cluster_of("m", "c", "z"))

    def test_lets_no_node_stand_in_for_one_that_came_after_all_or_after_it_drains(self):
        for there, draining in (("mzc", ()), ("mz", ("z",))):
            provisioning = Provisioning(Cloud())
            adding = Plan(add=(Node("c"),))
            provisioning.settle(adding, cluster_of("m"), (), 0, 0.0)
            assert {"c": "z"} == provisioning.meet(adding, cluster_of("m", "z"))

            assert {} == provisioning.meet(Plan(drain=draining), cluster_of(*there))

    def test_asks_once_for_what_is_wanted_and_not_there(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        two = cluster_of("m", "n")

        first = provisioning.settle(Plan(nodes=4), two, (), 0, 0.0)

        assert (2, 4) == (cloud.asked, cloud.total)
        (told,) = first
        assert told.provisions
        assert told.applied
        assert not told.refused
        assert "2 nodes more were asked for (there 2, wanted 4)" in str(told)
        for batch, now in ((1, 1.0), (2, 50.0)):
            assert [] == provisioning.settle(Plan(nodes=4), two, (), batch, now)
        three = cluster_of("m", "n", "o")
        assert [] == provisioning.settle(Plan(nodes=4), three, (), 3, 60.0)
        assert "1 node more was asked for" in str(
            provisioning.settle(Plan(nodes=5), three, (), 4, 61.0)[0]
        )
        assert (3, 5) == (cloud.asked, cloud.total)

    def test_asks_again_for_what_was_there_and_is_lost(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        provisioning.settle(Plan(nodes=2), cluster_of("m", "n"), (), 0, 0.0)
        assert 0 == cloud.asked

        provisioning.settle(Plan(nodes=2), cluster_of("m"), (), 1, 1.0)

        assert (1, 2) == (cloud.asked, cloud.total)

    def test_goes_by_the_names_that_a_plan_adds_where_it_says_no_number(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        plan = Plan(add=(Node("n"), Node("o")))

        provisioning.settle(plan, cluster_of("m"), (), 0, 0.0)
        assert [] == provisioning.settle(plan, cluster_of("m", "n"), (), 1, 1.0)

        assert 2 == cloud.asked

    def test_replaces_what_drains(self):
        cloud = Cloud()
        plan = Plan(nodes=2, drain=("n",))

        Provisioning(cloud).settle(plan, cluster_of("m", "n"), ("m", "n"), 0, 0.0)

        assert (1, 3) == (cloud.asked, cloud.total)  # with the one that is still there
        assert [] == cloud.released

    def test_counts_no_node_that_was_given_back_and_has_not_gone_yet(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        two = cluster_of("m", "n")
        provisioning.settle(Plan(nodes=1, drain=("n",)), two, ("m",), 0, 0.0)
        assert ["n"] == cloud.released

        provisioning.settle(Plan(nodes=3, drain=("n",)), two, ("m",), 1, 1.0)

        assert (2, 3) == (cloud.asked, cloud.total)

    def test_is_told_once_to_be_late_and_not_done_again(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud, patience=PATIENCE)
        one = cluster_of("m")
        provisioning.settle(Plan(nodes=3), one, (), 0, 10.0)

        assert [] == provisioning.settle(Plan(nodes=3), one, (), 1, 309.0)
        (late,) = provisioning.settle(Plan(nodes=3), one, (), 2, 310.0)

        assert "2 nodes asked for 300 s ago did not come" == late.refused
        assert not late.applied
        assert [] == provisioning.settle(Plan(nodes=3), one, (), 3, 9_000.0)
        assert 2 == cloud.asked
        provisioning.settle(Plan(nodes=1), one, (), 4, 9_001.0)
        provisioning.settle(Plan(nodes=2), one, (), 5, 9_002.0)
        assert 3 == cloud.asked


class TestCancelling:
    def test_is_done_once_for_what_is_not_wanted_any_more(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        two = cluster_of("m", "n")
        provisioning.settle(Plan(nodes=6), two, (), 0, 0.0)
        three = cluster_of("m", "n", "o")
        provisioning.settle(Plan(nodes=6), three, (), 1, 1.0)
        assert (4, 6) == (cloud.asked, cloud.total)

        (told,) = provisioning.settle(Plan(nodes=4), three, (), 2, 2.0)

        assert (2, 4) == (cloud.asked, cloud.total)
        assert "the request for 2 nodes was cancelled" in str(told)
        assert (True, "") == (told.applied, told.refused)
        assert [] == provisioning.settle(Plan(nodes=4), three, (), 3, 3.0)
        # What was cancelled is asked for again where it is wanted again.
        provisioning.settle(Plan(nodes=5), three, (), 4, 4.0)
        assert (3, 5) == (cloud.asked, cloud.total)

    def test_counts_what_drains_and_is_still_there_and_not_what_was_given_back(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        three = cluster_of("m", "n", "o")
        drain = ("n", "o")
        provisioning.settle(Plan(nodes=5, drain=drain), three, ("m", "n"), 0, 0.0)
        assert (4, 7, ["o"]) == (cloud.asked, cloud.total, cloud.released)

        provisioning.settle(Plan(nodes=2, drain=drain), three, ("m", "n"), 1, 1.0)

        assert (1, 3) == (cloud.asked, cloud.total)  # m, n, and the one that is still to come

    def test_of_a_name_is_done_where_the_plan_does_not_add_it_any_more(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        one, adding = cluster_of("m"), Plan(add=(Node("c"),))
        provisioning.settle(adding, one, (), 0, 0.0)
        assert 1 == cloud.asked

        provisioning.settle(adding.amended(Plan(drain=("c",)), one), one, (), 1, 1.0)

        assert (0, 1) == (cloud.asked, cloud.total)

    def test_of_what_came_meanwhile_is_not_tried(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        provisioning.settle(Plan(nodes=3), cluster_of("m"), (), 0, 0.0)

        told = provisioning.settle(Plan(nodes=1), cluster_of("m", "n"), (), 1, 1.0)

        assert (1, 2) == (cloud.asked, cloud.total)
        assert "the request for 1 node was cancelled" in str(told[0])
        assert [] == provisioning.settle(Plan(nodes=1), cluster_of("m", "n", "o"), (), 2, 2.0)

    def test_that_fails_is_refused_and_tried_again_unless_it_came_or_is_wanted_again(self):
        cloud = Patient()
        provisioning = Provisioning(cloud, patience=PATIENCE)
        one = cluster_of("m")
        provisioning.settle(Plan(nodes=4), one, (), 0, 0.0)
        cloud.fails = True

        (told,) = provisioning.settle(Plan(nodes=1), one, (), 1, 1.0)

        assert "Patient.cancel raised OSError: line is dead" in told.refused
        assert "the request for 3 nodes could be cancelled" in str(told)
        assert [] == provisioning.settle(Plan(nodes=1), one, (), 2, 299.0)
        cloud.fails = False
        assert [] == provisioning.settle(Plan(nodes=2), one, (), 3, 299.2)  # one of them is wanted
        two = cluster_of("m", "x", "y")
        assert [] == provisioning.settle(Plan(nodes=2), two, (), 4, 299.5)
        provisioning.settle(Plan(nodes=2), two, (), 5, 301.0)
        assert (2, 3) == (cloud.asked, cloud.total)  # the request for the third was cancelled

    def test_is_told_as_advice_where_nothing_can_do_it(self):
        for provisioner, words in (
            (
                Cloud(),
                "2 nodes asked for are no longer wanted but may still come: Cloud has no method ",
            ),
            (None, "2 nodes need not be acquired any more"),
        ):
            provisioning = Provisioning(provisioner)
            provisioning.settle(Plan(nodes=3), cluster_of("m"), (), 0, 0.0)
            (told,) = provisioning.settle(Plan(nodes=1), cluster_of("m"), (), 1, 1.0)
            assert words in str(told)
            assert (False, "") == (told.applied, told.refused)
            assert [] == provisioning.settle(Plan(nodes=1), cluster_of("m"), (), 2, 2.0)


class TestGivingBack:
    def test_waits_until_nothing_is_left(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        two, plan = cluster_of("m", "n"), Plan(drain=("n",))

        assert [] == provisioning.settle(plan, two, ("m", "n"), 0, 0.0)
        (told,) = provisioning.settle(plan, two, ("m",), 1, 1.0)

        assert ["n"] == cloud.released
        assert "nothing was left on n, which was given back" in str(told)
        assert [] == provisioning.settle(plan, two, ("m",), 2, 2.0)
        assert ["n"] == cloud.released

    def test_is_told_once_to_be_late(self):
        provisioning = Provisioning(Cloud(), patience=PATIENCE)
        two, plan = cluster_of("m", "n"), Plan(drain=("n",))
        provisioning.settle(plan, two, ("m",), 0, 0.0)

        (late,) = provisioning.settle(plan, two, ("m",), 1, 300.0)

        assert "n given back and still there" == late.refused
        assert [] == provisioning.settle(plan, two, ("m",), 2, 700.0)

    def test_is_done_again_for_a_node_that_came_back(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        plan = Plan(drain=("n",))
        for batch, names in enumerate((("m", "n"), ("m",), ("m", "n"))):
            provisioning.settle(plan, cluster_of(*names), ("m",), batch, 0.0)

        assert ["n", "n"] == cloud.released


class TestErrors:
    @pytest.mark.parametrize(
        ("plan", "words"),
        [
            (Plan(nodes=4), ["Cloud.acquire raised OSError: no quota left, at ", "2 nodes lack"]),
            (Plan(drain=("n",)), ["Cloud.release raised ValueError: cannot go", "n could be"]),
        ],
    )
    def test_are_refused_decisions_and_tried_again_after_a_while(self, plan, words, caplog):
        cloud = Cloud()
        cloud.fails = True
        provisioning = Provisioning(cloud, patience=PATIENCE)
        two = cluster_of("m", "n")

        (told,) = provisioning.settle(plan, two, ("m",), 0, 0.0)

        assert told.refused
        assert not told.applied
        assert [] == [word for word in words if word not in str(told)]
        assert str(told) in caplog.text
        assert [] == provisioning.settle(plan, two, ("m",), 1, 299.0)
        assert told.refused == provisioning.settle(plan, two, ("m",), 2, 300.0)[0].refused
        cloud.fails = False
        assert [] == provisioning.settle(plan, two, ("m",), 3, 599.0)
        (done,) = provisioning.settle(plan, two, ("m",), 4, 600.0)
        assert done.applied
        assert (2, []) == (cloud.asked, cloud.released) or (0, ["n"]) == (
            cloud.asked,
            cloud.released,
        )


class TestAdvice:
    def test_is_all_there_is_without_a_provisioner(self, caplog):
        provisioning = Provisioning(None)
        plan, three = Plan(nodes=4, drain=("n",)), cluster_of("m", "n", "o")

        told = provisioning.settle(plan, three, ("m", "o"), 0, 0.0)

        assert [
            "2 nodes more should be acquired; nothing here does that",
            "nothing is left on n: give back what you do not need",
        ] == texts(told)
        assert not any(one.applied or one.refused for one in told)
        assert 2 == len([one for one in caplog.records if one.levelno == logging.WARNING])
        assert [] == provisioning.settle(plan, three, ("m", "o"), 1, 9_999.0)


NAMES = [f"node-{number}" for number in range(5)]


@given(st.data())
def test_what_is_asked_for_makes_up_for_what_lacks_and_nothing_in_use_is_given_back(data):
    cloud = Cloud()
    provisioning = Provisioning(cloud)
    outstanding, given_back, before = 0, set(), None
    for batch in range(8):
        there = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
        kept = data.draw(st.lists(st.sampled_from(there), unique=True))
        drain = data.draw(st.lists(st.sampled_from(there), unique=True, max_size=len(there) - 1))
        nodes = data.draw(st.none() | st.integers(1, 6))
        cloud.fails = data.draw(st.integers(0, 4)) == 0
        asked, released = cloud.asked, list(cloud.released)

        provisioning.settle(
            Plan(nodes=nodes, drain=tuple(drain)), cluster_of(*there), kept, batch, 1e3 * batch
        )

        # The same, one number after the other.
        if before is not None:
            outstanding = max(0, outstanding - len({*there} - before))
        before = {*there}
        lacks = 0 if nodes is None else max(0, nodes - len({*there} - {*drain}))
        outstanding = min(outstanding, lacks)
        more = 0 if cloud.fails else lacks - outstanding
        event("asks" if more else "does not ask")
        assert more == cloud.asked - asked
        outstanding += more
        given_back &= {*drain}
        free = {*drain} - {*kept} - given_back
        new = set() if cloud.fails else free
        assert sorted(new) == cloud.released[len(released) :]
        given_back |= new


def test_nodes_are_kept_that_any_layout_uses_and_that_the_next_plan_does_not_drain():
    job, three = Topology.source("s", parallelism=2), cluster_of("m", "n", "o", "p")
    layouts = [
        Layout.of(job, three, Plan(placement={"s": Deployment(homes)}))
        for homes in (("m", "m"), ("m", "n"))
    ]

    drains = Plan(drain=("n", "o"))
    assert {"m", "n", "p"} == kept_by(drains, three, layouts)
    assert {"m", "p"} == kept_by(drains, three, layouts[:1])
    assert {"m", "n", "o", "p"} == kept_by(Plan(), three, layouts)
