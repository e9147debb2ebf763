"""Names for C: those of the user's program where they can be had."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    threadIdx blockIdx blockDim gridDim warpSize clock min max abs printf malloc free main
"""

_GLOBALS = """
    abs acos acosh asin asinh assert atan atan2 atanh cbrt ceil clock64 cospi cyl_bessel_i0 cyl_bessel_i1 dim3 div erfc
    erfcinv erfcx erfinv exp10 expm1 fdim fdividef fmax fmin frexp fdivide hypot ilogb j0 j1 jn labs ldexp lgamma llabs
    llmax llmin llrint llround log1p logb lrint lround modf nan nearbyint nextafter norm norm3d norm4d normcdf
    normcdfinv rcbrt remainder remquo rhypot rnorm rnorm3d rnorm4d round saturate scalbln scalbn sincos sincospi sinh
    sinpi size_t tan tgamma trunc ullmax ullmin umax umin y0 y1 yn cosh memcpy memset
"""
"""Functions and types that CUDA C has from the start: a variable may hide them, a kernel may not be called so."""


def kernel_names(taken: Iterable[str] = ()) -> Names:
    """What gives each kernel of a program a name."""
    floats = [f"{word}f" for word in _GLOBALS.split()]
    return Names((*_GLOBALS.split(), *floats, *taken))


class Names:
    """Gives each thing of one function a name of its own."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken: set[str] = {*_WORDS.split(), *taken}

    def is_taken(self, name: str) -> bool:
        return name in self._taken

    def fresh(self, wanted: str) -> str:
        """`wanted`, made an identifier, or `wanted_1`, `wanted_2` ... where it is taken."""
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "value"
        if base[0].isdigit() or base.startswith("_"):
            base = f"v{base}" if base[0].isdigit() else base.lstrip("_") or "value"
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
