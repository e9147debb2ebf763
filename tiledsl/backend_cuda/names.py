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
