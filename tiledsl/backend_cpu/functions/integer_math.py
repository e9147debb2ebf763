"""Integer functions with Python's and NumPy's meaning at the corners where LLVM's is undefined."""

from __future__ import annotations

from tiledsl.backend_cpu.functions.lanes import Lanes


def floordiv(lanes: Lanes, a: str, b: str) -> str:
    """a // b rounded down; 0 where b is 0."""
    zero = lanes.constant(0)
    by_zero = lanes.compare("eq", b, zero)
    if not lanes.type.dtype.is_signed:
        divisor = lanes.select(by_zero, lanes.constant(1), b)
        return lanes.select(by_zero, zero, lanes.binary("udiv", a, divisor))
    by_minus_one, divisor = _safe_divisor(lanes, b, by_zero)
    quotient = lanes.binary("sdiv", a, divisor)
    rest = lanes.sub(a, lanes.mul(quotient, divisor))
    lower = lanes.select(_differs_in_sign(lanes, rest, divisor), lanes.sub(quotient, lanes.constant(1)), quotient)
    return lanes.select(by_zero, zero, lanes.select(by_minus_one, lanes.neg(a), lower))


def mod(lanes: Lanes, a: str, b: str) -> str:
    """a % b with the sign of b; 0 where b is 0."""
    zero = lanes.constant(0)
    by_zero = lanes.compare("eq", b, zero)
    if not lanes.type.dtype.is_signed:
        # x % 1 == 0
        return lanes.binary("urem", a, lanes.select(by_zero, lanes.constant(1), b))
    _, divisor = _safe_divisor(lanes, b, by_zero)
    rest = lanes.binary("srem", a, divisor)
    return lanes.select(_differs_in_sign(lanes, rest, divisor), lanes.add(rest, divisor), rest)


def _safe_divisor(lanes: Lanes, b: str, by_zero: str) -> tuple[str, str]:
    """Where b is -1, and b with 1 in place of 0 and -1: dividing the least number by -1 would trap."""
    by_minus_one = lanes.compare("eq", b, lanes.constant(-1))
    return by_minus_one, lanes.select(lanes.either(by_zero, by_minus_one), lanes.constant(1), b)


def _differs_in_sign(lanes: Lanes, rest: str, divisor: str) -> str:
    """Whether a remainder is not 0 and has not the divisor's sign."""
    zero = lanes.constant(0)
    opposite = lanes.compare("slt", lanes.binary("xor", rest, divisor), zero)
    return lanes.both(opposite, lanes.compare("ne", rest, zero))


def power(lanes: Lanes, base: str, exponent: str) -> str:
    """base ** exponent by squaring, wrapping. A negative exponent gives what is left of 1 / base**-exponent: mostly 0.

    Writes a loop, which ends when the exponents of all lanes are used up.
    """
    writer, type_ = lanes.writer, lanes.type
    zero, one = lanes.constant(0), lanes.constant(1)
    negative = lanes.compare("slt", exponent, zero) if type_.dtype.is_signed else ""
    slots = [writer.alloca(str(type_)) for _ in range(3)]
    start = lanes.select(negative, zero, exponent) if negative else exponent
    for slot, value in zip(slots, (one, base, start)):
        writer.line(f"store {type_} {value}, ptr {slot}")
    head, body, done = (writer.new_label(f"pow.{part}") for part in ("head", "body", "done"))
    writer.branch(head)
    writer.start(head)
    total, square, left = (writer.emit(f"load {type_}, ptr {slot}") for slot in slots)
    any_left = left
    if type_.lanes > 1:
        any_left = writer.call(f"llvm.vector.reduce.or.{type_.suffix}", type_.element, [(str(type_), left)])
    writer.branch_if(writer.emit(f"icmp ne {type_.element} {any_left}, 0"), body, done)
    writer.start(body)
    odd = lanes.compare("ne", lanes.binary("and", left, one), zero)
    factor = lanes.select(odd, square, one)
    steps = (lanes.mul(total, factor), lanes.mul(square, square), lanes.binary("lshr", left, one))
    for slot, value in zip(slots, steps):
        writer.line(f"store {type_} {value}, ptr {slot}")
    writer.branch(head)
    writer.start(done)
    return _inverse(lanes, negative, base, exponent, total) if negative else total


def _inverse(lanes: Lanes, negative: str, base: str, exponent: str, power_: str) -> str:
    """1 and -1 have an inverse, which is themselves; of other bases nothing is left."""
    zero, one, minus_one = (lanes.constant(value) for value in (0, 1, -1))
    odd = lanes.compare("ne", lanes.binary("and", exponent, one), zero)
    of_minus_one = lanes.select(odd, minus_one, one)
    inverse = lanes.select(lanes.compare("eq", base, minus_one), of_minus_one, zero)
    inverse = lanes.select(lanes.compare("eq", base, one), one, inverse)
    return lanes.select(negative, inverse, power_)


def nibble(lanes: Lanes, a: str, i: str) -> str:
    """The low 4 bits of a where i is even, else the next 4; with their sign, of a signed dtype."""
    count = lanes.binary("shl", lanes.binary("and", i, lanes.constant(1)), lanes.constant(2))
    found = lanes.binary("and", lanes.binary("lshr", a, count), lanes.constant(15))
    if not lanes.type.dtype.is_signed:
        return found
    return lanes.sub(lanes.binary("xor", found, lanes.constant(8)), lanes.constant(8))


def shift_left(lanes: Lanes, a: str, count: str) -> str:
    """a << count; 0 where the count is at least the width, or negative."""
    fits = lanes.compare("ult", count, lanes.constant(lanes.type.dtype.bits))
    return lanes.select(fits, lanes.binary("shl", a, count), lanes.constant(0))


def shift_right(lanes: Lanes, a: str, count: str) -> str:
    """a >> count; only the sign is left where the count is at least the width, or negative."""
    width = lanes.type.dtype.bits
    if lanes.type.dtype.is_signed:
        return lanes.binary("ashr", a, lanes.intrinsic("umin", count, lanes.constant(width - 1)))
    fits = lanes.compare("ult", count, lanes.constant(width))
    return lanes.select(fits, lanes.binary("lshr", a, count), lanes.constant(0))
