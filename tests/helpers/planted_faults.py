"""What tests of the shipped suites share: running a suite on something that has a fault."""

from contextlib import contextmanager

from hypothesis import Phase, settings


@contextmanager
def as_many_as(suite):
    """Try as many examples as a suite does, and do not look for the simplest that fails."""
    usual = settings.default
    settings.register_profile(
        "planted",
        usual,
        max_examples=suite.examples,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    settings.load_profile("planted")
    yield
    settings.register_profile("before", usual)
    settings.load_profile("before")


def failures(suite, tests, kind=Exception):
    """Run the suite's tests and return the message of each that fails by an error of a kind."""
    found = {}
    for name in tests:
        try:
            getattr(suite, name)()
        except kind as error:
            found[name] = str(error)
    return found
