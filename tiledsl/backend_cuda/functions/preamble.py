"""The functions of CUDA C that generated programs call: a registry, and the choice that one program prints.

Each is small, is written once, and needs no header. Inline PTX stands nowhere else. A module that has some defines them
when it is imported; a program names those that it calls, and what they call in turn is found in their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_BUILTINS = """
    min max printf fabs fabsf floor floorf ceil ceilf rint rintf fma fmaf fmod fmodf copysign copysignf sqrt sqrtf
    rsqrt rsqrtf exp expf exp2 log logf log2 log2f tanh tanhf erf erff pow powf sin cos
    threadIdx blockIdx blockDim gridDim warpSize
"""
BUILTINS: frozenset[str] = frozenset(_BUILTINS.split())
"""What NVRTC knows without a header and generated code uses. Names that begin with `__` or `atomic` are not listed."""


@dataclass(frozen=True)
class DeviceFunction:
    """One function: `text` is its result type, name, parameters and body; `purpose` the comment above it.

    One that is `rare` is called, not written out: code that hardly ever runs would cost compile time at each use.
    """

    name: str
    purpose: str
    text: str
    rare: bool = False

    def __str__(self) -> str:
        how = "__noinline__" if self.rare else "__forceinline__"
        return f"// {self.purpose}\n__device__ {how} {self.text}\n"


_REGISTRY: dict[str, dict[int, DeviceFunction]] = {}
"""For each name, the function by the least capability that it is for."""


def define(name: str, purpose: str, text: str, since: int = 80, *, rare: bool = False) -> None:
    """Adds a function to the registry; `since` is the least compute capability (80, 89, ...) that this text is for.

    Several texts of one name are several ways to compute the same: a program takes the newest that it may.
    """
    texts = _REGISTRY.setdefault(name, {})
    assert since not in texts, f"{name} is defined twice for {since}"
    assert re.search(rf"\b{name}\(", text), f"the text of {name} defines something else"
    texts[since] = DeviceFunction(name, purpose, text.strip(), rare)


def defined_names() -> frozenset[str]:
    """All names of the registry and the builtins: a generated variable of such a name would hide the function."""
    return BUILTINS | frozenset(_REGISTRY)


def called_names(text: str) -> list[str]:
    """The names that a piece of C calls, in order, each once."""
    return list(dict.fromkeys(re.findall(r"\b([A-Za-z_]\w*)\(", text)))


class Preamble:
    """The device functions that one program uses.

    >>> preamble = Preamble()
    >>> preamble.use("add_i32")
    'add_i32'
    """

    def __init__(self, capability: int = 80) -> None:
        """`capability` is that of the architecture, 80 for sm_80: newer ones have more instructions."""
        self.capability = capability
        self._used: dict[str, DeviceFunction] = {}

    def use(self, function: str | DeviceFunction) -> str:
        """Records that a function is needed, and with it all that it calls. Returns the name to call.

        A function that is made for one program only is given itself; else the name of one in the registry.
        """
        found = self._newest(function) if isinstance(function, str) else function
        known = self._used.get(found.name)
        assert known is None or known == found, f"two functions are called {found.name}"
        if known is None:
            self._used[found.name] = found
            self.use_called(found.text)
        return found.name

    def use_called(self, text: str) -> str:
        """Records every function of the registry that a piece of C calls. Returns the piece."""
        for name in called_names(text):
            if name in _REGISTRY and name not in self._used:
                self.use(name)
        return text

    def functions(self) -> tuple[DeviceFunction, ...]:
        """What was used, each after those that it calls, whatever the order in which they were asked for."""
        ordered: dict[str, DeviceFunction] = {}
        for name in sorted(self._used):
            self._place(self._used[name], ordered)
        return tuple(ordered.values())

    def text(self) -> str:
        """The definitions of `functions()`."""
        return "\n".join(map(str, self.functions()))

    def _newest(self, name: str) -> DeviceFunction:
        texts = _REGISTRY[name]
        return texts[max(since for since in texts if since <= self.capability)]

    def _place(self, function: DeviceFunction, ordered: dict[str, DeviceFunction]) -> None:
        if function.name in ordered:
            return
        for name in called_names(function.text):
            if name in self._used and name != function.name:
                self._place(self._used[name], ordered)
        ordered[function.name] = function


@dataclass(frozen=True)
class Variant:
    """A C type that a function is written for once more: the words that stand for it in the text of a family."""

    suffix: str
    type: str
    unsigned: str = ""
    """The unsigned type of that width, for integers."""
    ending: str = ""
    """What the names of C's own functions end in (`f` for `float`), and literals (`f`, `ull`)."""
    bits: int = 0


FLOATS = (Variant("f32", "float", ending="f", bits=32), Variant("f64", "double", bits=64))
SIGNED = (Variant("i32", "int", "unsigned", "", 32), Variant("i64", "long long", "unsigned long long", "ll", 64))
UNSIGNED = (
    Variant("u32", "unsigned", "unsigned", "u", 32),
    Variant("u64", "unsigned long long", "unsigned long long", "ull", 64),
)


def define_family(stem: str, variants: Iterable[Variant], purpose: str, text: str) -> None:
    """Defines `stem`_i32, ... from one text, in which TYPE, UNSIGNED, SUFFIX, ENDING and BITS are replaced."""
    for variant in variants:
        words = {
            "TYPE": variant.type, "UNSIGNED": variant.unsigned, "SUFFIX": variant.suffix, "ENDING": variant.ending,
            "BITS": str(variant.bits),
        }  # fmt: skip
        replaced = text
        for word, replacement in words.items():
            replaced = replaced.replace(word, replacement)
        define(f"{stem}_{variant.suffix}", purpose, replaced)
