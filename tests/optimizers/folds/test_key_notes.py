"""What keys take: by the CPU time of some together, shared by the time that passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.folds.key_notes import KeyNotes


class Clocks:
    """A clock on the wall and one of the processor, which both go when they are let."""

    def __init__(self):
        self.wall = self.cpu = 0.0
        self.asked = 0

    def tell_wall(self):
        return self.wall

    def tell_cpu(self):
        self.asked += 1
        return self.cpu

    def go(self, wall, cpu):
        self.wall += wall
        self.cpu += cpu


def noted(keys):
    clocks = Clocks()
    notes = KeyNotes(len(keys), clocks.tell_wall, clocks.tell_cpu)
    for wall, cpu in keys:
        clocks.go(wall, cpu)
        notes.note(3)
    notes.end()
    return notes, clocks


TIMES = st.floats(0, 1e-3)


@given(st.lists(st.tuples(TIMES, st.floats(0, 1))))
def test_all_cpu_time_is_shared_out(keys):
    keys = [(wall, wall * share) for wall, share in keys]

    notes, _ = noted(keys)

    passed = sum(cpu for wall, cpu in keys if wall)
    assert notes.seconds.sum() == pytest.approx(passed, rel=1e-6, abs=1e-12)
    assert [3] * len(keys) == notes.rows.tolist()


@given(st.lists(st.tuples(st.floats(1.1e-4, 1e-3), st.floats(0, 1)), min_size=1))
def test_keys_that_take_long_have_their_own_cpu_time(keys):
    keys = [(wall, wall * share) for wall, share in keys]

    notes, _ = noted(keys)

    assert [cpu for _, cpu in keys] == pytest.approx(notes.seconds.tolist(), abs=1e-9)


def test_the_processor_is_asked_once_for_many_short_keys():
    _, clocks = noted([(1e-6, 1e-6)] * 600)

    assert clocks.asked < 30


def test_a_key_that_waits_takes_no_cpu_time():
    notes, _ = noted([(1e-3, 1e-3), (1.0, 0.0), (1e-3, 1e-3)])

    assert [1e-3, 0.0, 1e-3] == pytest.approx(notes.seconds.tolist(), abs=1e-9)
