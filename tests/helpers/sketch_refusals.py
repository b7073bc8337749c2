"""What tests of sketches share about refusals."""

import pytest

from sketches.errors import PenstockError


def refuses(sketch, error, change, match=None):
    """The change is refused, and leaves the sketch as it was."""
    before = sketch.copy()
    with pytest.raises(error, match=match) as refusal:
        change(sketch)
    assert isinstance(refusal.value, PenstockError)
    assert before == sketch
    assert before.kind == sketch.kind
