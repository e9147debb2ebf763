"""Philox4x32-10 against the known answers of Random123, and the shape of its distributions."""

import numpy as np
import pytest

from tiledsl.backend_ref.philox import bits, normal, philox4x32, random_words, uniform

KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(counter: str, key: str, answer: str) -> None:
    c0, c1, c2, c3 = (np.array([int(word, 16)], np.uint64) for word in counter.split())
    k0, k1 = (np.array([int(word, 16)], np.uint64) for word in key.split())
    words = philox4x32((c0, c1, c2, c3), (k0, k1))
    assert [f"{int(word[0]):08x}" for word in words] == answer.split()


def test_seed_and_offset_fill_the_low_words_first() -> None:
    seed = np.asarray(0x299F31D0_A4093822, np.int64)
    offset = np.asarray(0x05A308D3_243F6A88, np.int64)
    words = random_words(seed, offset)
    zero = np.zeros((), np.uint64)
    expected = philox4x32(
        (np.asarray(0x243F6A88, np.uint64), np.asarray(0x05A308D3, np.uint64), zero, zero),
        (np.asarray(0xA4093822, np.uint64), np.asarray(0x299F31D0, np.uint64)),
    )
    assert list(map(int, words)) == list(map(int, expected))


def test_a_number_depends_on_its_offset_alone() -> None:
    seed = np.asarray(7, np.int64)
    together = bits(seed, np.arange(100))
    apart = np.concatenate([bits(seed, np.arange(i, i + 10)) for i in range(0, 100, 10)])
    np.testing.assert_array_equal(together, apart)
    assert together.dtype == np.uint32
    assert not np.array_equal(together, bits(np.asarray(8, np.int64), np.arange(100)))


def test_negative_offsets_are_sign_extended() -> None:
    seed = np.asarray(3, np.int64)
    narrow, wide = np.asarray([-1], np.int32), np.asarray([-1], np.int64)
    np.testing.assert_array_equal(bits(seed, narrow), bits(seed, wide))


def test_uniform() -> None:
    numbers = uniform(np.asarray(1, np.int64), np.arange(20_000))
    assert numbers.dtype == np.float32
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(float(numbers.mean()) - 0.5) < 0.01
    assert abs(float(numbers.std()) - 12**-0.5) < 0.01


def test_normal() -> None:
    numbers = normal(np.asarray(1, np.int64), np.arange(20_000))
    assert numbers.dtype == np.float32
    assert np.isfinite(numbers).all()
    assert abs(float(numbers.mean())) < 0.03
    assert abs(float(numbers.std()) - 1) < 0.03


def test_scalars_keep_rank_0() -> None:
    seed, offset = np.asarray(1, np.int64), np.asarray(2, np.int64)
    for draw in (bits, uniform, normal):
        assert draw(seed, offset).shape == ()
