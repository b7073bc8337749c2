"""Laws of the shipped suites: on how many inputs, and on machines of any speed."""

import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from optimizers.testing.laws import Laws, law


class Slow(Laws):
    """A law whose examples take longer than Hypothesis allows by default."""

    examples = 3
    drawn = 0

    @law
    def test_something(self, data):
        data.draw(st.integers())
        type(self).drawn += 1
        time.sleep(0.02)


@pytest.fixture
def impatient():
    usual = settings.default
    settings.register_profile("impatient", usual, deadline=10)
    settings.load_profile("impatient")
    yield
    settings.register_profile("before", usual)
    settings.load_profile("before")


def test_a_machine_that_is_busy_breaks_no_law(impatient):
    class OfTheAuthor(Slow):
        pass

    OfTheAuthor().test_something()

    assert 3 == OfTheAuthor.drawn
