"""DS2: as many instances as true rates need, against its equations in fractions."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from dataflows import dataflows
from hypothesis import given

from batching.dataflow import Dataflow
from batching.ds2 import ds2_instances
from batching.errors import DataflowError, OverloadError


@given(dataflows())
def test_each_operator_gets_what_its_rate_needs_for_all_that_comes(described):
    columns = described.columns

    found = ds2_instances(described.flow())

    for place, instances in enumerate(found.tolist()):
        if described.is_source(place):
            assert columns["given"][place] == instances
        else:
            work = described.rate(place, columns["rates"]) * columns["seconds"][place]
            assert max(1, ceil(Fraction(work))) == instances


def test_full_instances_are_enough_but_for_rounding():
    flow = Dataflow.of(
        ["source", "a"], [("source", "a")], seconds=[0, 1.1], rates=[50, 0], selectivity=[1.0]
    )

    assert 55 == ds2_instances(flow)[1]
    assert 1.1 * 50 > 55  # which is what must not count


def test_a_rate_without_end_and_a_load_beyond_all_engines_are_refused():
    endless = Dataflow.of(["source", "a"], [("source", "a")], seconds=1, rates=[np.inf, 0])
    heavy = Dataflow.of(["source", "a"], [("source", "a")], seconds=1, rates=[1e12, 0])

    with pytest.raises(DataflowError, match="'source' gives as fast as it can"):
        ds2_instances(endless)
    with pytest.raises(OverloadError, match=r"'a' needs 1e\+12 instances"):
        ds2_instances(heavy)
