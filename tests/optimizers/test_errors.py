"""The tree of errors: one root, kinds that Python knows, messages that travel."""

import copy
import inspect
import pickle

import pytest

from optimizers import errors
from optimizers.errors import (
    CheckpointError,
    CorruptDataError,
    DataflowError,
    DeliveryError,
    EmptySketchError,
    FitError,
    FoldError,
    FunctionError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
    MissingPackageError,
    OutsideRangeError,
    OverloadError,
    PartitionError,
    PenstockError,
    PlacementError,
    PlanConflictError,
    PlanError,
    PluginError,
    SinkError,
    SolverError,
    StateError,
    StrategyError,
    TopologyError,
    UnknownNameError,
)

KINDS = {
    InvalidValueError: ValueError,
    InvalidKeyError: TypeError,
    EmptySketchError: LookupError,
    MergeError: ValueError,
    CorruptDataError: ValueError,
    MissingPackageError: ImportError,
    PartitionError: ValueError,
    PlacementError: ValueError,
    SolverError: RuntimeError,
    DataflowError: ValueError,
    OverloadError: ValueError,
    FitError: ValueError,
    OutsideRangeError: ValueError,
    TopologyError: ValueError,
    UnknownNameError: LookupError,
    PlanError: ValueError,
    PlanConflictError: PlanError,
    PluginError: PenstockError,
    StrategyError: RuntimeError,
    FoldError: ValueError,
    FunctionError: RuntimeError,
    DeliveryError: RuntimeError,
    SinkError: RuntimeError,
    CheckpointError: RuntimeError,
    StateError: CheckpointError,
}


def test_all_errors_stand_under_one_root_and_are_exported():
    defined = {
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, Exception)
    }

    assert {PenstockError, *KINDS} == defined
    assert {kind.__name__ for kind in defined} == set(errors.__all__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_is_also_the_kind_of_error_that_python_calls_it(kind):
    assert issubclass(kind, PenstockError)
    assert issubclass(kind, KINDS[kind])
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not PlanConflictError])
def test_a_message_reads_the_same_on_the_other_side_of_a_process(kind):
    error = kind("operator 'x' is not there")

    for arrived in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):  # noqa: S301
        assert kind is type(arrived)
        assert "operator 'x' is not there" == str(arrived)


@pytest.mark.parametrize("where", ["", "step 2 of the chain, Hash: "])
def test_a_conflict_keeps_its_fields_on_the_other_side_of_a_process(where):
    error = PlanConflictError("parallelism", ("a", "b"), 4, 8, where)

    for arrived in (error, pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):  # noqa: S301
        assert ("parallelism", ("a", "b"), 4, 8, where) == (
            arrived.part,
            arrived.subject,
            arrived.first,
            arrived.second,
            arrived.where,
        )
        expected = (
            f"{where}two plans decide the parallelism of ('a', 'b'): 4 and 8; drop one of the two "
            "strategies, or chain them so that only one decides it"
        )
        assert expected == str(arrived)


def test_an_unknown_name_is_told_what_is_known():
    expected = "unknown node 'x'; known: 'a', 'b'"

    assert expected == str(UnknownNameError.among("node", "x", ["a", "b"]))
    assert "unknown node 'x'; known: none" == str(UnknownNameError.among("node", "x", []))
