"""Whatever can be given in place of what is asked for."""

import math

from optimizers import PenstockError

WILD = (
    *(None, 0, -1, 1.5, math.nan, True, "", "ab", b"ab"),
    *([], {}, set(), (), object(), [[]], {"x": []}, {(): 1}),
)


def taken_or_refused(build, *more):
    """Give it all of these, of which each must be taken, or refused by an error of ours."""
    for value in (*WILD, *more):
        try:
            build(value)
        except PenstockError as error:
            assert len(str(error)) > 10  # noqa: PT017  # that nothing else is raised is the point
