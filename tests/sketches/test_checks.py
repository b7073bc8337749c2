"""Numbers from outside: what is let in, and what is said about the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import checks
from sketches.errors import InvalidValueError, PenstockError


class TestWhole:
    @pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
    def test_a_whole_number_comes_back_as_an_int(self, value):
        result = checks.whole("n", value, at_least=3, at_most=3)
        assert (int, 3) == (type(result), result)

    @pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float64(3), "3", None, [3]])
    def test_what_is_no_whole_number_is_refused(self, value):
        with pytest.raises(InvalidValueError, match=r"n=.* is not a whole number; give an int"):
            checks.whole("n", value, at_least=0)

    @pytest.mark.parametrize(
        ("value", "at_most", "words"),
        [
            (1, None, r"n=1 is out of range; it must be at least 2"),
            (1, 9, r"n=1 is out of range; it must be from 2 to 9"),
            (10, 9, r"n=10 is out of range; it must be from 2 to 9"),
        ],
    )
    def test_a_number_out_of_range_is_refused(self, value, at_most, words):
        with pytest.raises(InvalidValueError, match=words):
            checks.whole("n", value, at_least=2, at_most=at_most)

    def test_a_seed_is_an_unsigned_number_of_64_bits(self):
        assert [0, 2**64 - 1] == [checks.seed(0), checks.seed(2**64 - 1)]
        for value in (-1, 2**64):
            with pytest.raises(InvalidValueError, match=f"seed={value} is out of range"):
                checks.seed(value)


class TestNumber:
    @pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2)])
    def test_a_number_comes_back_as_a_float(self, value):
        result = checks.number("x", value, above=1, up_to=2)
        assert (float, 2.0) == (type(result), result)

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (True, r"x=True is not a number"),
            ("2", r"x='2' is not a number"),
            (None, r"x=None is not a number"),
            (1j, r"x=1j is not a number"),
            (float("nan"), r"x=nan is not finite"),
            (float("-inf"), r"x=-inf is not finite"),
            (1, r"x=1 is out of range; it must be in \(1, 2\]"),
            (2.5, r"x=2.5 is out of range; it must be in \(1, 2\]"),
        ],
    )
    def test_anything_else_is_refused(self, value, words):
        with pytest.raises(InvalidValueError, match=words):
            checks.number("x", value, above=1, up_to=2)

    @pytest.mark.parametrize("value", [np.complex128(2), 10**400], ids=["complex", "huge"])
    def test_what_has_no_float_is_refused(self, value):
        with pytest.raises(InvalidValueError, match="x="):
            checks.number("x", value)


class TestWeights:
    @given(st.lists(st.floats(0, 1e300)))
    def test_finite_numbers_that_are_not_negative_come_back_as_they_are(self, values):
        assert values == checks.weights("weights", values, len(values)).tolist()

    @pytest.mark.parametrize(
        "values", [[1, 2], (1, 2), np.array([1, 2], np.uint8), np.array([1, 2], np.float16)]
    )
    def test_numbers_of_any_type_become_doubles(self, values):
        array = checks.weights("weights", values, 2)
        assert (np.float64, [1.0, 2.0]) == (array.dtype, array.tolist())

    @pytest.mark.parametrize("values", [[], np.array([], dtype=object), np.array([], dtype=bool)])
    def test_no_keys_need_no_weights(self, values):
        array = checks.weights("weights", values, 0)
        assert (np.float64, []) == (array.dtype, array.tolist())

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            (["1", "2"], r"costs of type <U1 are not numbers; give an int or float for each key"),
            ([True, False], r"costs of type bool are not numbers"),
            ([1, None], r"costs of type object are not numbers"),
            ([1j, 2], r"costs of type complex128 are not numbers"),
            (None, r"costs of type object are not numbers"),
            ([1], r"costs of shape \(1,\) do not fit 2 keys; give one number for each key"),
            (1.0, r"costs of shape \(\) do not fit 2 keys"),
            ([[1, 2]], r"costs of shape \(1, 2\) do not fit 2 keys"),
            ([], r"costs of shape \(0,\) do not fit 2 keys"),
            ([[1], [1, 2]], r"costs are not a column; give one number for each key"),
            ([1, -1], r"costs\[1\]=-1.0 cannot be counted; each must be finite and not negative"),
            ([1, np.nan], r"costs\[1\]=nan cannot be counted"),
            ([np.inf, np.nan], r"costs\[0\]=inf cannot be counted"),
            ([-np.inf, 1], r"costs\[0\]=-inf cannot be counted"),
        ],
    )
    def test_anything_else_is_refused_by_name_and_place(self, values, words):
        with pytest.raises(InvalidValueError, match=words):
            checks.weights("costs", values, 2)

    def test_a_number_beyond_all_doubles_is_refused(self):
        largest = np.finfo(np.longdouble).max
        if largest == np.finfo(np.float64).max:
            pytest.skip("long doubles are doubles here")
        with pytest.raises(InvalidValueError, match=r"costs\[0\]=inf"):
            checks.weights("costs", np.array([largest]), 1)


def test_every_refusal_can_be_caught_as_an_error_of_penstock_or_of_python():
    for kind in (PenstockError, ValueError):
        with pytest.raises(kind):
            checks.seed(-1)
