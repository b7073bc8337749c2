"""Tables of key groups: a key goes where its group goes, whatever the number of instances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import GroupTable, grouping_from_dict
from grouping.hashing import hash_parts
from sketches.errors import CorruptDataError, InvalidValueError

KEYS = np.arange(120)


@given(st.dictionaries(st.integers(0, 99), st.integers(0, 15)), st.integers(1, 20))
def test_alone_it_spreads_its_groups_evenly_over_any_number_of_instances(named, instances):
    table = GroupTable(list(named), list(named.values()), 16)
    hashed = hash_parts(KEYS, 16).tolist()
    groups = [named.get(key, other) for key, other in zip(KEYS.tolist(), hashed, strict=True)]

    assert groups == table.group_of(KEYS).tolist()
    found = table.router(instances).route(len(KEYS), KEYS)
    assert np.int32 == found.dtype
    assert [group * instances // 16 for group in groups] == found.tolist()


def test_it_serves_any_number_of_instances():
    table = GroupTable(["a"], [3], 8)

    assert table.instances is None
    assert (8, [3]) == (table.key_groups, table.groups.tolist())
    assert not table.groups.flags.writeable
    assert "GroupTable(1 str keys, key_groups=8)" == repr(table)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([0, 2], "key 'b' is given to 2; give it a key group from 0 to 1"),
        ([-1, 0], "key 'a' is given to -1"),
        ([0], "groups of shape (1,) do not fit 2 keys"),
        ([0.0, 1.0], "groups of type float64 are not whole numbers; give a key group for each"),
    ],
)
def test_what_is_no_group_is_refused(groups, words):
    with pytest.raises(InvalidValueError) as caught:
        GroupTable(["a", "b"], groups, 2)

    assert words in str(caught.value)


@pytest.mark.parametrize("key_groups", [0, -1, 1 << 31, 2.0, True, None])
def test_the_number_of_key_groups_is_a_number(key_groups):
    with pytest.raises(InvalidValueError, match=f"key_groups={key_groups}"):
        GroupTable([], [], key_groups)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keys": None}, "keys=None of a routing table is not a list"),
        ({"groups": [0, 7]}, "is given to 7"),
        ({"key_groups": 0}, "key_groups=0"),
        ({"instances": 2}, "instances"),
        ({"adopts": True}, "adopts"),
    ],
)
def test_a_document_that_is_no_table_of_groups_is_refused(change, words):
    data = {"kind": "group_table", "key_groups": 2, "keys": ["a", "b"], "groups": [0, 1], **change}

    with pytest.raises(CorruptDataError) as caught:
        grouping_from_dict(data)

    assert words in str(caught.value)
