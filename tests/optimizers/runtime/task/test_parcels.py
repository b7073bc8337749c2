"""Parcels: nothing of them is lost on the way, and what changes shows."""

from dataclasses import fields, replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.errors import DeliveryError
from optimizers.runtime.task import parcels
from optimizers.runtime.task.parcels import SCHEMA, Parcel, as_batches, from_batches, packed

SMALL = st.integers(-1, 3)
PARCELS = st.builds(
    Parcel,
    st.integers(0, 5),
    SMALL,
    SMALL,
    SMALL,
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 40),
    st.binary(max_size=40),
    st.sampled_from(("", "host-1", "ä")),
)
NOT_KNOWN = ("task", "place")  # to a digest
TUPLES = pa.record_batch({"k": [1, 2, 2], "t": ["a", None, "ä"]})


def content(parcel):
    return replace(parcel, body=bytes(memoryview(parcel.body)))


@given(st.lists(PARCELS, max_size=12), st.sampled_from((1, 40, 1 << 20)))
def test_parcels_come_out_of_batches_as_they_went_in(sent, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parcels, "_AT_ONCE", most)
        batches = list(as_batches(iter(sent)))

    assert sent == [content(parcel) for parcel in from_batches(batches)]
    assert all(SCHEMA == batch.schema for batch in batches)
    for batch in batches:
        sizes = [len(body) for body in batch.column("body").to_pylist()]
        assert sum(sizes[:-1]) < most


def test_no_parcels_make_no_batch():
    assert [] == list(as_batches([]))


def test_parcels_wait_for_no_more_than_a_batch():
    pulled = []

    def sending():
        for number in range(10):
            pulled.append(number)
            yield Parcel(0, 0, 0, 0, number, 0, b"x" * (1 << 19))

    next(as_batches(sending()))

    assert [0, 1] == pulled


@given(PARCELS, PARCELS)
def test_a_digest_tells_parcels_apart_but_not_the_way_they_took(one, other):
    same = replace(one, task=0, place="") == replace(other, task=0, place="")

    assert same == (one.digest == other.digest)
    assert one.digest == one.through(7).digest
    assert 7 == one.through(7).task


@given(PARCELS, st.data())
def test_a_digest_changes_with_each_field(parcel, data):
    name = data.draw(st.sampled_from([f.name for f in fields(Parcel) if f.name not in NOT_KNOWN]))
    other = b"?" + parcel.body if name == "body" else getattr(parcel, name) + 1

    assert parcel.digest != replace(parcel, **{name: other}).digest


@given(PARCELS, st.text(max_size=3), st.integers(0, 9))
def test_a_parcel_that_is_made_again_elsewhere_is_the_same(parcel, place, task):
    assert parcel.digest == replace(parcel, place=place, task=task).digest


def test_bodies_that_are_swapped_between_parcels_show():
    """Digests are added up: what they are made of must not cancel out."""
    bodies = [f"body {number}".encode() for number in range(100)]
    sent = [Parcel(0, 0, 0, 0, number, 1, body) for number, body in enumerate(bodies)]

    for one, other in pairwise(sent):
        swapped = replace(one, body=other.body), replace(other, body=one.body)
        assert one.digest + other.digest != sum(parcel.digest for parcel in swapped)


def test_parcels_stand_by_edge_then_sender_then_number():
    sent = [Parcel(9 - n, n // 4, 5, n // 2 % 2, n % 2, 0, b"") for n in range(8)]

    assert sent == sorted([*sent[4:], *sent[:4]], key=lambda parcel: parcel.order)


def test_tuples_are_unpacked_as_they_were_packed():
    parcel = Parcel(0, 0, 0, 0, 0, 3, packed(TUPLES))

    assert pa.Table.from_batches([TUPLES]) == parcel.tuples()
    assert len(packed(TUPLES)) == parcel.size


@pytest.mark.parametrize("keep", [0, 3, 60, 200, -30])
def test_a_body_that_was_cut_is_refused(keep):
    body = packed(TUPLES).to_pybytes()[:keep]

    with pytest.raises(DeliveryError, match=r"parcel 4 of sender 2 arrived damaged: .*again"):
        Parcel(0, 0, 0, 2, 4, 3, body).tuples()


def test_a_body_of_other_tuples_than_were_announced_is_refused():
    with pytest.raises(DeliveryError, match="it holds 3 tuples, not 4"):
        Parcel(0, 0, 0, 2, 4, 4, packed(TUPLES)).tuples()
