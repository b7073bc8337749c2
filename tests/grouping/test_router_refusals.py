"""What routers and their groupings refuse: each refusal names the value, and changes nothing."""

import math

import pytest
from each_grouping import ALL_SPECS, EACH, INSTANCES, KEYED, skewed

from grouping.grouping import Grouping
from grouping.groupings import (
    DChoices,
    WChoices,
    grouping_from_dict,
)
from sketches.errors import CorruptDataError, InvalidKeyError, InvalidValueError


@ALL_SPECS
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"instances": 0}, "instances=0"),
        ({"instances": -3}, "instances=-3"),
        ({"instances": 1 << 31}, "instances=2147483648"),
        ({"instances": 2.0}, "instances=2.0"),
        ({"instances": True}, "instances=True"),
        ({"sender": -1}, "sender=-1"),
        ({"sender": None}, "sender=None"),
        ({"local": [0, 5]}, r"local\[1\]=5 is out of range; it must be from 0 to 4"),
        ({"local": [-1]}, r"local\[0\]=-1"),
        ({"local": [1, 1]}, r"local=\[1, 1\] names an instance twice"),
        ({"local": 1}, "local=1 is not a list"),
        ({"local": {1}}, "is a set"),
        ({"local": [0.5]}, r"local\[0\]=0.5"),
    ],
)
def test_a_router_cannot_be_made_of_wrong_numbers(grouping, arguments, words):
    with pytest.raises(InvalidValueError, match=words):
        grouping.router(**{"instances": INSTANCES, **arguments})


@pytest.mark.parametrize("grouping", [g for g in EACH if g.instances], ids=repr)
def test_what_was_made_for_five_instances_does_not_route_to_six(grouping):
    with pytest.raises(InvalidValueError, match=r"instances=6, but .* made for 5; make one for 6"):
        grouping.router(6)


@KEYED
def test_a_router_by_key_needs_a_key_for_each_row_and_is_as_it_was_without(grouping):
    keys = skewed(1_000, distinct=15)
    router, twin = (grouping.router(INSTANCES) for _ in range(2))
    router.route(500, keys[:500])
    twin.route(500, keys[:500])

    with pytest.raises(InvalidKeyError, match="chooses by a key and got 300 rows without"):
        router.route(300)
    with pytest.raises(InvalidValueError, match="rows=3 and 2 keys"):
        router.route(3, [1, 2])
    with pytest.raises(InvalidKeyError):
        router.route(2, [1, None])
    with pytest.raises(InvalidKeyError):
        router.route(1, "k")

    assert twin.route(500, keys[500:]).tolist() == router.route(500, keys[500:]).tolist()


@ALL_SPECS
@pytest.mark.parametrize("rows", [-1, 2.0, None, True, 1 << 31])
def test_rows_are_counted_in_whole_numbers(grouping, rows):
    with pytest.raises(InvalidValueError, match=f"rows={rows}"):
        grouping.router(INSTANCES).route(rows, [1, 2])


@pytest.mark.parametrize("kind", [DChoices, WChoices])
@pytest.mark.parametrize("threshold", [0, -0.1, 1.5, math.nan, math.inf, "0.1", True])
def test_a_threshold_is_a_share(kind, threshold):
    with pytest.raises(InvalidValueError, match=f"threshold={threshold!r}"):
        kind(threshold)
    with pytest.raises(CorruptDataError, match="threshold="):
        grouping_from_dict({"kind": kind.kind, "threshold": threshold})


@pytest.mark.parametrize("tolerance", [0, -1, 2, math.nan, None])
def test_a_tolerance_is_a_share(tolerance):
    with pytest.raises(InvalidValueError, match=f"tolerance={tolerance!r}"):
        DChoices(tolerance=tolerance)


@pytest.mark.parametrize("kind", ["worst_case", "distribution_aware"])
@pytest.mark.parametrize("table", [None, [], {"instances": 1}, {"keys": [], "instances": 1}])
def test_a_document_without_a_table_is_refused(kind, table):
    data = {"kind": kind, "table": table}
    if kind == "distribution_aware":
        data["cells"] = [0]

    with pytest.raises(CorruptDataError, match=r"table=|keys=None|parts"):
        grouping_from_dict(data)


class Silent(Grouping):
    """A grouping whose author has not said how it routes."""

    kind = "silent"


def test_a_grouping_that_cannot_route_says_so():
    with pytest.raises(InvalidValueError, match="Silent does not say how it routes; define"):
        Silent().router(3)
