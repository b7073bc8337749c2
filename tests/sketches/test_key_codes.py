"""Codes of keys: a bijection for integers, fingerprints by hand, the same for ever."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from key_samples import TEXT_CONTAINERS, TEXTS, UINT64, codes, u64

import sketches
from sketches.fingerprints import fingerprints
from sketches.keys import as_keys, mix


def unmix(code):
    """Undo `mix`, with Python's integers."""
    mask = 2**64 - 1
    code = code ^ (code >> 31) ^ (code >> 62)
    code = code * pow(0x94D049BB133111EB, -1, 2**64) & mask
    code = code ^ (code >> 27) ^ (code >> 54)
    code = code * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask
    return code ^ (code >> 30) ^ (code >> 60)


def fingerprint_by_hand(kind, text):
    """Return the fingerprint of one text of up to 256 bytes, with Python's integers."""
    mask = 2**64 - 1
    seed = {"str": 0x5D589B6A2F3C7E11, "bytes": 0xA3B195354A39B70D}[kind]
    code = mixed((seed + len(text) * 0x9E3779B97F4A7C15) & mask)
    for start in range(0, len(text), 8):
        code = mixed(code ^ int.from_bytes(text[start : start + 8], "little"))
    return code


def mixed(code):
    return int(mix(u64(code))[0])


def flipped(data, bit):
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


class TestCodes:
    @given(UINT64)
    def test_mix_is_a_bijection(self, code):
        assert code == unmix(int(mix(u64(code))[0]))

    @given(st.binary(max_size=256), st.binary(max_size=20))
    def test_a_fingerprint_reads_eight_bytes_at_a_time_whatever_lies_beside(self, key, other):
        assert [fingerprint_by_hand("bytes", k) for k in (other, key, other)] == codes(
            [other, key, other]
        )

    @given(TEXTS)
    def test_a_text_is_read_as_utf_8(self, key):
        assert [fingerprint_by_hand("str", key.encode())] == codes([key])

    @given(st.integers(0, 8), st.data())
    def test_different_bytes_of_one_length_up_to_eight_never_collide(self, length, data):
        keys = data.draw(st.lists(st.binary(min_size=length, max_size=length), unique=True))
        assert len(keys) == len(set(codes(keys)))

    def test_zeros_at_the_end_are_part_of_a_key(self):
        keys = [b"a" + b"\0" * n for n in range(20)] + [b"\0" * n for n in range(300)]
        assert len(keys) == len(set(codes(keys)))

    def test_a_million_texts_do_not_collide(self):
        words = np.array([f"https://example.org/{n:07}/{n % 13}" for n in range(1_000_000)])
        # Expected: 1e12 / 2^65 = 3e-8 collisions.
        assert len(np.unique(as_keys(words).codes)) == 1_000_000

    def test_longer_texts_have_fingerprints_of_their_own(self):
        text = "".join(map(chr, range(0x100, 0x100 + 600)))
        keys = [text[:n] for n in range(100, 600)]
        array = pa.array(keys)
        assert len(keys) == len(set(codes(keys)))
        assert codes(keys) == codes(array)
        assert keys == as_keys(array).objects().tolist()

    @pytest.mark.parametrize("length", [255, 256, 257, 1000])
    def test_the_last_byte_of_a_long_key_counts(self, length):
        first, second = codes([b"x" * length, b"x" * (length - 1) + b"y"])
        assert first != second

    @pytest.mark.parametrize("text", ["abcdefg€x", "abcdef€x", "€€€", "😀" * 5, "aaaaaaaé"])
    def test_a_character_may_lie_across_two_words(self, text):
        for container in TEXT_CONTAINERS.values():
            column = as_keys(container([text, "b", text]))
            assert [text, "b", text] == column.objects().tolist()
            assert fingerprint_by_hand("str", text.encode()) == column.codes[0] == column.codes[2]

    @pytest.mark.parametrize("length", [1, 5, 8, 9, 31, 300])
    def test_one_flipped_bit_changes_about_half_of_the_code(self, length):
        rng = np.random.default_rng(length)
        keys = [rng.bytes(length) for _ in range(2000)]
        changed = [flipped(key, int(rng.integers(length * 8))) for key in keys]
        differences = np.bitwise_count(as_keys(keys).codes ^ as_keys(changed).codes)
        # Of 64 fair coins: mean 32, deviation 4; the mean of 2000 deviates by 0.09.
        assert abs(differences.mean() - 32) < 1
        assert ((differences >= 20) & (differences <= 44)).mean() > 0.98

    def test_one_flipped_bit_of_an_integer_changes_about_half_of_its_mix(self):
        rng = np.random.default_rng(0)
        numbers = rng.integers(0, 2**63, 6400, dtype=np.uint64)
        bits = np.uint64(1) << (np.arange(6400, dtype=np.uint64) % np.uint64(64))
        differences = np.bitwise_count(mix(numbers) ^ mix(numbers ^ bits)).reshape(-1, 64)
        assert differences.mean(axis=0).min() > 28
        assert differences.mean(axis=0).max() < 36

    def test_codes_are_for_ever(self):
        golden = {
            "": GOLDEN[0],
            "a": GOLDEN[1],
            "#java": GOLDEN[2],
            "12345678": GOLDEN[3],
            "naïve café €": GOLDEN[4],
            "x" * 256: GOLDEN[5],
            "x" * 257: GOLDEN[6],
        }
        assert golden == dict(zip(golden, map(hex, codes(list(golden))), strict=True))
        assert GOLDEN[7] == hex(codes([b"a"])[0])
        assert GOLDEN[8] == hex(codes([("Asia", 7)])[0])
        assert GOLDEN[9] == hex(int(mix(u64(1))[0]))

    def test_codes_are_the_same_in_every_process(self):
        program = (
            "from sketches.keys import as_keys\n"
            "keys = [('k' * (n % 300), b'\\xff' * (n % 11)) for n in range(1000)]\n"
            "print(as_keys(keys).codes.tobytes().hex())"
        )
        home = str(Path(sketches.__file__).parents[1])
        outputs = {
            subprocess.run(
                [sys.executable, "-c", program],
                env=os.environ | {"PYTHONHASHSEED": seed},
                cwd=home,
                capture_output=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        keys = [("k" * (n % 300), b"\xff" * (n % 11)) for n in range(1000)]
        assert {as_keys(keys).codes.tobytes().hex().encode() + b"\n"} == outputs

    def test_fingerprints_of_nothing_are_none(self):
        none = np.empty(0, dtype=np.int64)
        assert fingerprints("str", np.empty(0, np.uint8), none, none).tolist() == []

    def test_a_long_key_is_hashed_by_blake2b(self):
        key = b"k" * 400
        salt = 0xA3B195354A39B70D.to_bytes(16, "little")
        digest = hashlib.blake2b(key, digest_size=8, salt=salt).digest()
        assert int(mix(u64(int.from_bytes(digest, "little")))[0]) == codes([key])[0]


GOLDEN = (
    "0xd6090dbbb8bff307",
    "0xadb275a25b8dfc05",
    "0x598817c1b1d2d30a",
    "0xce0b08cd3e06c361",
    "0xf1b4214b18360ab7",
    "0x815274ed4655dfaf",
    "0x6d42b1b8dd2994d7",
    "0x39665004f873e9ae",
    "0x1b08241e0e92e1d3",
    "0x5692161d100b05e5",
)
