"""The functions that a program prints: those it uses, in order, in the form of its architecture."""

from __future__ import annotations

import re

import pytest

from tests.support.gpu_cases.device_cases import every_case
from tests.support.gpu_code.device_functions import body
from tiledsl.backend_cuda.functions.casts import cast, pack
from tiledsl.backend_cuda.functions.preamble import (
    BUILTINS,
    DeviceFunction,
    Preamble,
    called_names,
    define,
    defined_names,
)
from tiledsl.ir.dtypes import f8e4m3, f16, f64

GOLDEN = """\
// the bits of x rounded to f16
__device__ __forceinline__ unsigned bits_f16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// the f16 in the low half of a word
__device__ __forceinline__ float low_f16(unsigned word) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)word));
    return x;
}

// x rounded to f16
__device__ __forceinline__ float round_f16(float x) {
    return low_f16(bits_f16(x));
}

// x as a float; of the two around an x between them, the one with an odd last bit, so that it rounds on as x does
__device__ __forceinline__ float round_to_odd(double x) {
    float shorter = __double2float_rz(x);
    return (double)shorter == x ? shorter : __uint_as_float(__float_as_uint(shorter) | 1u);
}
"""


def test_prints_what_is_used_and_nothing_else() -> None:
    preamble = Preamble()
    assert preamble.text() == ""
    cast("x", f64, f16, preamble)
    assert preamble.text() == GOLDEN


def test_the_order_of_use_does_not_matter() -> None:
    names = ["sigmoid_f32", "random_normal", "pow_i32", "round_bf16"]
    there, back = Preamble(), Preamble()
    for name in names:
        assert there.use(name) == name
    for name in reversed(names):
        back.use(name)
        back.use(name)
    assert there.text() == back.text()


def test_each_function_stands_after_those_it_calls() -> None:
    preamble = Preamble()
    for case in every_case():
        body(case, preamble)
    seen: set[str] = set()
    functions = preamble.functions()
    names = {function.name for function in functions}
    assert len(functions) > 100
    for function in functions:
        assert set(called_names(function.text)) & names <= {*seen, function.name}
        seen.add(function.name)


def test_a_newer_architecture_has_more_instructions() -> None:
    texts: list[str] = []
    for capability in (80, 89, 100):
        preamble = Preamble(capability)
        pack(list("abcd"), f8e4m3, preamble)
        texts.append(preamble.text())
    assert "cvt.rn.satfinite.e4m3x2.f32" not in texts[0]
    assert texts[0] != texts[1] == texts[2]


def test_functions_of_one_program() -> None:
    preamble = Preamble()
    own = DeviceFunction("own", "for the test", "float own(float x) {\n    return round_f16(x);\n}")
    assert preamble.use(own) == preamble.use(own) == "own"
    assert re.search(r"// x rounded to f16\n.*// for the test\n", preamble.text(), re.DOTALL)
    with pytest.raises(AssertionError, match="two functions are called own"):
        preamble.use(DeviceFunction("own", "another", "int own() { return 0; }"))


def test_what_cannot_be_defined() -> None:
    with pytest.raises(AssertionError, match="round_f16 is defined twice"):
        define("round_f16", "again", "float round_f16(float x) { return x; }")
    with pytest.raises(AssertionError, match="defines something else"):
        define("wanted", "", "float other(float x) { return x; }")


def test_names_that_variables_must_not_have() -> None:
    assert {"expf", "max", "round_f16", "threadIdx"} <= defined_names()
    preamble = Preamble()
    texts = [body(case, preamble) for case in every_case()] + [function.text for function in preamble.functions()]
    called = {name for text in texts for name in called_names(text)}
    known = (
        defined_names()
        | {function.name for function in preamble.functions()}
        | {"if", "for", "while", "asm", "volatile"}
    )
    unknown = {name for name in called - known if not name.startswith(("__", "atomic"))}
    assert not unknown
    assert called | {"printf", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"} >= BUILTINS
