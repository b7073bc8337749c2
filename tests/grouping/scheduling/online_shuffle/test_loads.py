"""The order of loads, against looking through all."""

from hypothesis import given
from hypothesis import strategies as st

from grouping.scheduling.online_shuffle.loads import InstanceLoads


class SlowLoads:
    """Loads in a list, looked through whenever the least is asked for."""

    def __init__(self, count, first):
        self.loads = [0] * count
        self.turns = [(each - first) % count for each in range(count)]

    def least(self):
        return min(range(len(self.loads)), key=lambda i: (self.loads[i], self.turns[i]))

    def give(self, instance, load):
        self.loads[instance] += load
        self.turns[instance] = max(self.turns) + 1

    def change(self, instance, load):
        self.loads[instance] += load


@given(
    st.integers(1, 5),
    st.integers(0, 4),
    st.lists(
        st.tuples(
            st.sampled_from(["give", "change", "least"]), st.integers(0, 4), st.integers(0, 3)
        ),
        max_size=200,
    ),
)
def test_the_least_is_found_and_of_equals_whose_turn_is_longest_ago(count, first, steps):
    slow, fast = SlowLoads(count, first), InstanceLoads([0] * count, first=first)
    for what, instance, load in steps:
        if what == "least":
            slow.give(slow.least(), load)
            fast.give(fast.least, load)
        else:
            amount = load - 2 if what == "change" else load
            getattr(slow, what)(instance % count, amount)
            getattr(fast, what)(instance % count, amount)

        assert slow.least() == fast.least
        assert slow.loads == fast.all
        assert slow.loads == [fast[each] for each in range(count)]


def test_entries_that_no_longer_hold_do_not_pile_up():
    loads = InstanceLoads([0.0] * 3)
    for _ in range(1_000):
        loads.change(2, 1.0)

    assert len(loads._heap) < 40  # noqa: SLF001  # nothing else shows what is kept
    assert [0.0, 0.0, 1_000.0] == loads.all
