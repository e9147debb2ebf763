"""Powers of two near a number."""

from hypothesis import given
from hypothesis import strategies as st

from tiledsl.support.powers_of_two import power_of_two_from, power_of_two_in, power_of_two_up_to


@given(st.integers(1, 1 << 40))
def test_around_a_number(number: int) -> None:
    inside, below, above = power_of_two_in(number), power_of_two_up_to(number), power_of_two_from(number)
    assert all(power.bit_count() == 1 for power in (inside, below, above))
    assert number % inside == 0
    assert number // inside % 2 == 1
    assert below <= number < 2 * below
    assert above // 2 < number <= above


def test_what_is_below_1() -> None:
    assert power_of_two_from(0) == power_of_two_from(-5) == 1
    assert power_of_two_in(-24) == 8
