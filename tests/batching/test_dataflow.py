import pickle

import numpy as np
import pytest
from dataflows import dataflows
from hypothesis import given

from batching.dataflow import Dataflow
from batching.errors import DataflowError
from optimizers.package_guard import PACKAGES
from sketches.errors import InvalidValueError, PenstockError


def chain(names=("a", "b", "c"), edges=(("a", "b"), ("b", "c")), **changed):
    columns = {"seconds": 0.001, "rates": [10, 0, 0], "sizes": 8}
    return Dataflow.of(names, edges, **{**columns, **changed})


@given(dataflows(most=7))
def test_rates_are_those_of_all_producers_together(described):
    flow = described.flow()

    rates = flow.arrivals(flow.rates)

    emitted = described.columns["rates"]
    assert rates.tolist() == pytest.approx(
        [float(described.rate(operator, emitted)) for operator in range(flow.operators)]
    )


@given(dataflows(most=7))
def test_each_operator_comes_after_its_producers_and_once(described):
    flow = described.flow()

    place = {operator: place for place, operator in enumerate(flow.order)}

    assert sorted(flow.order) == list(range(flow.operators))
    assert all(place[producer] < place[consumer] for producer, consumer in described.edges)
    assert flow.sources.tolist() == [described.is_source(each) for each in range(flow.operators)]


@given(dataflows())
def test_a_dataflow_is_a_value(described):
    flow = described.flow()

    assert flow == described.flow()
    assert flow == pickle.loads(pickle.dumps(flow))  # noqa: S301
    with pytest.raises(ValueError, match="read-only"):
        flow.seconds[0] = 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"names": ()}, "without an operator"),
        ({"names": ("a", "b", "a")}, "'a' is there 2 times"),
        ({"edges": [("a", "b"), ("b", "d")]}, "no operator 'd'"),
        ({"edges": [("a", "b"), ("a", "b")]}, "is there twice"),
        ({"edges": [("a", "b"), ("b", "c"), ("c", "b")]}, r"(b -> c -> b|c -> b -> c) is a cycle"),
        ({"edges": [("a", "a")]}, "a -> a is a cycle"),
        ({"rates": [10, 5, 0]}, "'b' gets its tuples from other operators"),
        ({"given": [1, 2, 1]}, "instances of 'b' are planned"),
    ],
)
def test_what_is_no_dataflow_is_refused(changed, message):
    with pytest.raises(DataflowError, match=message):
        chain(**changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"names": "abc"}, "is not a list"),
        ({"names": ("a", "b", 3)}, r"names\[2\]=3 is not a name"),
        ({"edges": ["ab"]}, r"edges\[0\]='ab' is no edge"),
        ({"seconds": [1, 2]}, r"seconds of shape \(2,\) do not fit 3 operators"),
        ({"seconds": [1, -2, 3]}, r"seconds\[1\]=-2.0: each must be at least 0 and finite"),
        ({"seconds": [1, np.nan, 3]}, r"seconds\[1\]=nan"),
        ({"seconds": np.inf}, r"seconds\[0\]=inf"),
        ({"seconds": ["1", "2", "3"]}, "are not numbers"),
        ({"rates": [np.nan, 0, 0]}, r"rates\[0\]=nan: each must be at least 0$"),
        ({"hottest": [0, 0, 1.5]}, r"hottest\[2\]=1.5: each must be 0 to 1"),
        ({"given": [0, 1, 1]}, r"given\[0\]=0: each must be 1 to"),
        ({"given": [1.5, 1, 1]}, "are not whole numbers"),
        ({"sizes": [0, 8]}, r"sizes\[0\]=0.0: each must be at least 1"),
        ({"selectivity": [1, np.inf]}, r"selectivity\[1\]=inf"),
        ({"keyed": [1, 0]}, "are not booleans"),
    ],
)
def test_a_number_out_of_its_range_is_named(changed, message):
    with pytest.raises(InvalidValueError, match=message):
        chain(**changed)


def test_a_rate_beyond_all_floats_is_refused():
    flow = chain(rates=[1e200, 0, 0], selectivity=1e200)

    with (
        np.errstate(over="ignore"),
        pytest.raises(DataflowError, match="the rate of 'b' is beyond"),
    ):
        flow.arrivals(flow.rates)


def test_errors_stand_in_the_tree_of_penstock():
    assert issubclass(DataflowError, PenstockError)
    assert "batching" in PACKAGES
