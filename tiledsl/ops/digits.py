"""Sorts of rows digit by digit, by one thread for a row: what `ops.sort` takes on a CPU."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.frontend.trace.trace_serial import record_serial
from tiledsl.ir.dtypes import DType
from tiledsl.ops.checks import active

MOST_PLACES = (1 << 31) - 1
"""Places have 32 bits beside keys."""
FEW = 48
"""Up to this length rows are sorted by counting on CPUs too, which longer ones do digit by digit."""
MANY = 1024
"""From this length on digits have more bits, where rows are sorted digit by digit."""
DIGITS = (8, 11)
"""How many bits these are, of shorter and of longer rows."""
KEY_BITS = {tile.f16: 19, tile.bf16: 16, tile.f8e4m3: 12, tile.f8e5m2: 11}
"""How many of the 32 bits of an f32 these narrow floats fill, from its sign on."""
MANY_PROGRAMS, MOST_ROWS = 64, 64
"""Rows share the memory that their programs count in, up to so many, where there are more programs than that."""


def or_by_digits(x: Any, found: tuple[Any, ...], descending: bool) -> Any:
    """What was found of rows in order; or by one thread for a row, digit by digit, where keys have up to 64 bits."""
    count, size = x.shape
    if x.dtype == tile.f64 or not FEW < size < MOST_PLACES:
        return found
    bits, digit = key_bits(x.dtype), DIGITS[int(size >= MANY)]
    rows = min(1 << max(count // MANY_PROGRAMS, 1).bit_length() - 1, MOST_ROWS) if isinstance(count, int) else 1
    kernel = by_wide_digits if bits == 64 else by_digits
    return record_serial(active(), found, kernel(x, descending, digit, bits, rows))


def key_bits(dtype: DType) -> int:
    """How many bits the numbers have that elements are put in order by."""
    return KEY_BITS.get(dtype, dtype.bits)


@tile.func
def key_of(x: Any, descending: Any, bits: Any) -> Any:
    """Numbers of so many bits without a sign, in the order of those of `x`: of floats NaN is the largest, and -0 is 0.

    If `descending`, in the opposite order, and with ones above these bits.
    """
    if x.dtype.is_float:
        wide = x.to(tile.f32)
        key = tile.float_bits(tile.where(wide == 0, 0.0, wide))
        key = tile.where(key >> 31 == 1, ~key, key | (1 << 31))
        key = tile.where(wide == wide, key, (1 << 32) - 1) >> 32 - bits
    elif x.dtype.is_signed and x.dtype.bits == 64:
        key = x.to(tile.u64) ^ (1 << 63)
    elif x.dtype.is_signed:
        key = x.to(tile.i32).to(tile.u32) ^ (1 << 31)
    elif x.dtype.bits == 64:
        key = x
    else:
        key = x.to(tile.u32)
    if descending:
        key = ~key
    return key


@tile.func
def _value(word: Any, shift: Any, digit: Any) -> Any:
    """The digit of a word that begins at bit `shift`."""
    return (word >> shift & ((1 << digit) - 1)).to(tile.i32)


@tile.kernel
def by_digits(
    x: tile.Tensor, descending: tile.constexpr, digit: tile.constexpr, bits: tile.constexpr, rows: tile.constexpr
) -> Any:
    """Rows in order, digit by digit from the lowest on, by counting how often each value of a digit is there.

    Of the digits of a key of `bits`, each of `digit` bits, only those are gone through in which keys of a row differ. A
    word is a key, as what it has above the least of the row, and the element's place: words go from one side of
    `words` to the other, those in front from the front, where their value starts, and those behind from the end, two
    chains of counters that do not wait for each other. A program has `rows` rows, one after the other.
    """
    M, N = x.shape
    G, turns = (M + rows - 1) // rows, -(-bits // digit)
    words = tile.empty((G, 2, N), tile.u64)
    counts = tile.empty((G, turns, 1 << digit), tile.i32)
    starts = tile.empty((G, 1 << digit), tile.i32)
    ends = tile.empty((G, 1 << digit), tile.i32)
    y = tile.empty((M, N), x.dtype)
    places = tile.empty((M, N), tile.i64)
    for g in tile.grid(G, block=1):
        for m in tile.range(g.start * rows, tile.minimum(g.start * rows + rows, M), block=1):
            low, high = tile.full((), (1 << 32) - 1, tile.u32), tile.zeros((), tile.u32)
            for n in tile.range(N):
                key = key_of(x[m, n], descending, bits)
                low, high = tile.minimum(low, tile.min(key)), tile.maximum(high, tile.max(key))
            for n in tile.range(N):
                words[g, 0, n] = (key_of(x[m, n], descending, bits) - low).to(tile.u64) << 32 | n.index.to(tile.u64)
            counts[g, :, :] = tile.zeros((turns, 1 << digit), tile.i32)
            for i in tile.range(N, block=1):
                for p in range(turns):
                    value = _value(words[g, 0, i], p * digit + 32, digit)
                    counts[g, p, value] = counts[g, p, value] + 1
            side = tile.zeros((), tile.i32)
            for p in tile.range(turns, block=1):
                if ((high - low) >> (p * digit).to(tile.u32)) != 0:
                    shift = (p * digit + 32).to(tile.u64)
                    end = tile.cumsum(counts[g, p, :], axis=0)
                    starts[g, :], ends[g, :] = end - counts[g, p, :], end
                    for i in tile.range(N // 2, block=1):
                        word, last = words[g, side, i], words[g, side, N - 1 - i]
                        value = _value(word, shift, digit)
                        at = starts[g, value]
                        starts[g, value] = at + 1
                        words[g, 1 - side, at] = word
                        value = _value(last, shift, digit)
                        at = ends[g, value] - 1
                        ends[g, value] = at
                        words[g, 1 - side, at] = last
                    if N % 2 == 1:
                        word = words[g, side, N // 2]
                        words[g, 1 - side, starts[g, _value(word, shift, digit)]] = word
                    side = 1 - side
            for n in tile.range(N):
                at = (words[g, side, n] & ((1 << 32) - 1)).to(tile.i64)
                y[m, n], places[m, n] = x[m, at], at
    return y, places


@tile.kernel
def by_wide_digits(
    x: tile.Tensor, descending: tile.constexpr, digit: tile.constexpr, bits: tile.constexpr, rows: tile.constexpr
) -> Any:
    """The same of keys of 64 bits, beside which there is no room for places."""
    M, N = x.shape
    G, turns = (M + rows - 1) // rows, -(-bits // digit)
    keys = tile.empty((G, 2, N), tile.u64)
    moved = tile.empty((G, 2, N), tile.i32)
    starts = tile.empty((G, 1 << digit), tile.i32)
    ends = tile.empty((G, 1 << digit), tile.i32)
    y = tile.empty((M, N), x.dtype)
    places = tile.empty((M, N), tile.i64)
    for g in tile.grid(G, block=1):
        for m in tile.range(g.start * rows, tile.minimum(g.start * rows + rows, M), block=1):
            low, high = tile.full((), (1 << 64) - 1, tile.u64), tile.zeros((), tile.u64)
            for n in tile.range(N):
                key = key_of(x[m, n], descending, bits)
                low, high = tile.minimum(low, tile.min(key)), tile.maximum(high, tile.max(key))
            for n in tile.range(N):
                keys[g, 0, n], moved[g, 0, n] = key_of(x[m, n], descending, bits) - low, n.index.to(tile.i32)
            side = tile.zeros((), tile.i32)
            for p in tile.range(turns, block=1):
                shift = (p * digit).to(tile.u64)
                if (high - low) >> shift != 0:
                    ends[g, :] = tile.zeros((1 << digit,), tile.i32)
                    for i in tile.range(N, block=1):
                        value = _value(keys[g, side, i], shift, digit)
                        ends[g, value] = ends[g, value] + 1
                    count = ends[g, :]
                    end = tile.cumsum(count, axis=0)
                    starts[g, :], ends[g, :] = end - count, end
                    for i in tile.range(N // 2, block=1):
                        key, last = keys[g, side, i], keys[g, side, N - 1 - i]
                        value = _value(key, shift, digit)
                        at = starts[g, value]
                        starts[g, value] = at + 1
                        keys[g, 1 - side, at], moved[g, 1 - side, at] = key, moved[g, side, i]
                        value = _value(last, shift, digit)
                        at = ends[g, value] - 1
                        ends[g, value] = at
                        keys[g, 1 - side, at], moved[g, 1 - side, at] = last, moved[g, side, N - 1 - i]
                    if N % 2 == 1:
                        key = keys[g, side, N // 2]
                        at = starts[g, _value(key, shift, digit)]
                        keys[g, 1 - side, at], moved[g, 1 - side, at] = key, moved[g, side, N // 2]
                    side = 1 - side
            for n in tile.range(N):
                at = moved[g, side, n]
                y[m, n], places[m, n] = x[m, at], at.to(tile.i64)
    return y, places
