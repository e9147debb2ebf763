"""Powers of two near a number: what threads, vectors and lines of memory divide evenly."""

from __future__ import annotations


def power_of_two_in(number: int) -> int:
    """The largest power of two that divides a number other than 0.

    >>> power_of_two_in(24)
    8
    """
    return number & -number


def power_of_two_up_to(number: int) -> int:
    """The largest power of two that is no more than a positive number.

    >>> power_of_two_up_to(24)
    16
    """
    return 1 << (number.bit_length() - 1)


def power_of_two_from(number: int) -> int:
    """The least power of two that is no less than a number; 1 for numbers below that.

    >>> power_of_two_from(24)
    32
    """
    return 1 << max(0, number - 1).bit_length()
