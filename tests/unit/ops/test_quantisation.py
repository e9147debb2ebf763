"""Quantised tensors against NumPy: packed integers, scales of groups, products by them; on the CPU, in the emulator,
and in machine code."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.gpu_cases.zoo_programs import planned_kernels
from tests.support.gpu_code.sass import disassemble
from tests.support.op_checks import F16, F32, Array, agree, normal, results_of
from tiledsl import TileError, ops, tile
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_cuda.build.gate import refusals
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.passes.manager import PassContext, PassManager
from tiledsl.passes.pipelines import gpu_pipeline

DTYPES = (tile.i8, tile.u8, tile.i4, tile.u4)


def unpacked(packed: Array, signed: bool, size: int) -> Array:
    """The integers of 4 bits in bytes, as NumPy takes them out."""
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)[..., :size].astype(np.int32)
    return (q ^ 8) - 8 if signed else q


def spread(part: Array, group: int, size: int) -> Array:
    return np.repeat(part.astype(np.float64), group, axis=-1)[..., :size]


def weights(dtype: Any, n: int, k: int, group: int, scales: Any = F16) -> tuple[Array, Array, Array]:
    """Quantised weights, their scales, and what they are."""
    random = np.random.default_rng((n, k))
    s = (np.abs(random.standard_normal((n, -(-k // group)))) * 0.1 + 0.01).astype(scales)
    if dtype.bits == 8:
        q = random.integers(*((-128, 128) if dtype.is_signed else (0, 256)), (n, k))
        return q.astype(np.int8 if dtype.is_signed else np.uint8), s, q * spread(s, group, k)
    q = random.integers(0, 256, (n, (k + 1) // 2)).astype(np.uint8)
    return q, s, unpacked(q, dtype.is_signed, k) * spread(s, group, k)


@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=3))
@settings(max_examples=10)
def test_pack_and_unpack(shape: list[int]) -> None:
    q = np.random.default_rng(shape).integers(-8, 8, shape).astype(np.int8)
    packed = np.asarray(ops.pack(q))
    assert packed.dtype == np.uint8
    assert packed.shape == (*shape[:-1], (shape[-1] + 1) // 2)
    assert np.array_equal(unpacked(packed, True, shape[-1]), q)
    for dtype, wanted in ((tile.i4, q), (tile.u4, q & 15)):
        for result in results_of(lambda x, dtype=dtype: ops.unpack(x, dtype, shape[-1]), [packed]).values():
            assert np.array_equal(result, wanted)


@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 6)), group=st.integers(1, 17),
    axis=st.integers(-3, 2), dtype=st.sampled_from(DTYPES), symmetric=st.booleans(), floats=st.sampled_from((F32, F16)),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_what_is_quantised_comes_back(
    shape: tuple[int, ...], group: int, axis: int, dtype: Any, symmetric: bool, floats: Any
) -> None:
    x = normal(*shape, dtype=floats)
    symmetric = symmetric and dtype.is_signed
    graph = tiledsl.trace(lambda x: ops.quantise(x, dtype, group, axis, symmetric), x)
    q, scales, *zeros = (np.asarray(part) for part in graph(x))
    size = shape[-1] if dtype.bits == 4 else None
    back = tiledsl.trace(
        lambda *given: _back(*given, dtype=dtype, group=group, axis=axis, size=size), q, scales, *zeros
    )
    found = np.asarray(back(q, scales, *zeros)).astype(np.float64)
    assert found.shape == shape
    at = axis % 3
    each = np.repeat(np.moveaxis(scales, at, -1).astype(np.float64), group, axis=-1)[..., : shape[at]]
    apart = np.moveaxis(np.abs(found - x.astype(np.float64)), at, -1)
    assert (apart <= each * (0.51 if symmetric else 1.01) + 4e-3).all()


def _back(q: Any, scales: Any, zeros: Any = None, **named: Any) -> Any:
    return ops.dequantise(q, scales, zeros, **named)


def test_a_group_of_zeros_has_the_scale_1() -> None:
    q, scales = ops.quantise(np.zeros((2, 8), np.float32), tile.i4, 4)
    assert np.array_equal(scales, np.ones((2, 2)))
    assert not np.asarray(q).any()


@given(
    m=st.integers(1, 6), n=st.integers(1, 9), k=st.integers(1, 70), group=st.sampled_from((1, 7, 16, 32)),
    dtype=st.sampled_from(DTYPES), zeros=st.sampled_from(("none", "number", "groups")), biased=st.booleans(),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_products(m: int, n: int, k: int, group: int, dtype: Any, zeros: str, biased: bool) -> None:
    x = normal(m, k)
    q, s, w = weights(dtype, n, k, group, F32)
    z = np.random.default_rng(k).integers(0, 16, s.shape).astype(np.uint8)
    w = w - {"none": 0.0, "number": 3.0 * spread(s, group, k), "groups": spread(z * s, group, k)}[zeros]
    b = normal(n, seed=1)
    wanted = x.astype(np.float64) @ w.T + (b if biased else 0)

    def formula(x: Any, q: Any, s: Any, z: Any, b: Any) -> Any:
        zero = {"none": None, "number": 3, "groups": z}[zeros]
        return ops.quantised_linear(x, q, s, zero, b if biased else None, dtype, group)

    agree(formula, [x, q, s, z, b], wanted, terms=8 * k)


def test_one_scale_for_each_row() -> None:
    x, b = normal(3, 20), normal(5)
    q, s, w = weights(tile.i8, 5, 20, 20, F32)
    agree(lambda x, q, s, b: ops.quantised_linear(x, q, s, None, b), [x, q, s[:, 0], b], x @ w.T + b, terms=200)


SIZES = ((1, 64, 512, 128), (3, 40, 96, 32), (16, 64, 256, 64), (70, 72, 320, 32), (2, 16, 65, 32))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [tile.i8, tile.i4, tile.u4], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_in_the_emulator(sizes: tuple[int, int, int, int], dtype: Any, arch: str) -> None:
    m, n, k, group = sizes
    x = normal(m, k, dtype=F16)
    q, s, w = weights(dtype, n, k, group)
    graph = tiledsl.trace(lambda x, q, s: ops.quantised_linear(x, q, s, 2, None, dtype, group), x, q, s)
    found: Any = emulate_graph(graph, (x, q, s), {}, None, Request(arch=arch)).result
    wanted = x.astype(np.float64) @ (w - 2 * spread(s, group, k)).T
    assert np.abs(np.asarray(found, np.float64) - wanted).max() < 2e-3 * np.abs(wanted).max()


@given(
    m=st.sampled_from((1, 2, 17, 33)), n=st.sampled_from((1, 8, 40, 72)), k=st.integers(1, 150),
    group=st.sampled_from((1, 2, 3, 16, 32, 48)), dtype=st.sampled_from(DTYPES),
    arch=st.sampled_from(("sm_80", "sm_90")), plan=st.integers(0, 2),
)  # fmt: skip
@settings(max_examples=8, deadline=None)
def test_every_shape_in_the_emulator(m: int, n: int, k: int, group: int, dtype: Any, arch: str, plan: int) -> None:
    x = normal(m, k, dtype=F16)
    q, s, w = weights(dtype, n, k, group)
    graph = tiledsl.trace(lambda x, q, s: ops.quantised_linear(x, q, s, None, None, dtype, group), x, q, s)
    found: Any = emulate_graph(graph, (x, q, s), {}, None, Request(arch=arch, plan=plan)).result
    wanted = x.astype(np.float64) @ w.T
    assert np.abs(np.asarray(found, np.float64) - wanted).max() < 4e-3 * max(np.abs(wanted).max(), 0.01)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("m", [1, 16, 256])
def test_is_one_kernel_without_spills(m: int, arch: str) -> None:
    for text in _sources(m, arch):
        assert refusals(compile_cubin(text, arch, "kernel")) == []


def test_zero_points_do_not_part_the_kernel() -> None:
    """Without warpgroups, which are not worth writing the weights to memory for."""
    n, k, group = 14336, 4096, 128
    shapes = ((16, k), tile.f16), ((n, k // 2), tile.u8), ((n, k // group), tile.f16), ((n, k // group), tile.u8)
    graph = tiledsl.trace(
        lambda x, q, s, z: ops.quantised_linear(x, q, s, z, None, tile.u4, group), *(tile.spec(*one) for one in shapes)
    )
    assert len(tiledsl.fuse(graph).audit("sm_90").kernels) == 1


def _sources(m: int, arch: str) -> list[str]:
    n, k, group = 14336, 4096, 128
    specs = tile.spec((m, k), tile.f16), tile.spec((n, k // 2), tile.u8), tile.spec((n, k // group), tile.f16)
    graph = tiledsl.trace(lambda x, q, s: ops.quantised_linear(x, q, s, None, None, tile.i4, group), *specs)
    ((placed, plans, _),) = planned_kernels(tiledsl.fuse(graph), arch)
    lowered = PassManager(gpu_pipeline(plans[0], arch), verify=False).run(placed, PassContext())
    return [emit_program(lowered, int(arch[3:])).text]


def test_nibbles_are_read_by_vectors_and_become_floats_in_two_instructions() -> None:
    (text,) = _sources(1, "sm_90")
    (code,) = disassemble(compile_cubin(text, "sm_90", "kernel")).values()
    read = Counter(opcode for opcode in code.opcodes if opcode.startswith("LDG"))
    assert "LDG.E.U8.CONSTANT" not in read
    elements = 16 * read["LDG.E.64.CONSTANT"]
    assert elements >= 64
    counts = code.counts
    assert not counts["I2F"]
    assert counts["LOP3"] <= 1.4 * elements
    assert sum(counts[name] for name in ("FFMA", "FMUL", "FADD")) <= 4 * elements
    assert counts["SHF"] <= elements / 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, q, s: ops.quantised_linear(x, q, s), "weights of u8 are one to a byte"),
        (lambda x, q, s: ops.quantised_linear(x, q, s, None, None, tile.i4, 16), "for each group of 16"),
        (lambda x, q, s: ops.quantised_linear(x, q, s, s[:, :1], None, tile.i4, 32), "for each group of 32"),
        (lambda x, q, s: ops.quantised_linear(x, q, s, None, s, tile.i4, 32), "one bias for each row"),
        (lambda x, q, s: ops.quantised_linear(x, q[0], s, None, None, tile.i4, 32), "give a weight of rank 2"),
        (lambda x, q, s: ops.quantised_linear(q, q, s, None, None, tile.i4, 32), "holds u8, not floats"),
        (lambda x, q, s: ops.quantised_linear(x, q, q, None, None, tile.i4, 32), "holds u8, not floats"),
        (lambda x, q, s: ops.quantised_linear(x, q, s, None, None, tile.f16, 32), "tile.i8, tile.u8, tile.i4"),
        (lambda x, q, s: ops.quantised_linear(x, q, s, None, None, tile.i4, 0), "an int from 1 on"),
        (lambda x, q, s: ops.quantise(x, tile.u4), "False for an unsigned dtype"),
        (lambda x, q, s: ops.quantise(q, tile.i8), "holds u8, not floats"),
        (lambda x, q, s: ops.quantise(x, tile.i32), "name one of these four"),
        (lambda x, q, s: ops.dequantise(x, s), "tile.i8, tile.u8, tile.i4"),
        (lambda x, q, s: ops.dequantise(q, s, None, tile.i8), "holds u8, not i8"),
        (lambda x, q, s: ops.unpack(q, tile.i8), "tile.i4 or tile.u4"),
        (lambda x, q, s: ops.unpack(x), "bytes (u8 or i8)"),
        (lambda x, q, s: ops.unpack(q, tile.i4, 62), "63 or 64"),
        (lambda x, q, s: ops.pack(x), "integers"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    x, (q, s, _) = normal(3, 64), weights(tile.i4, 5, 64, 32, F32)
    with pytest.raises(TileError) as caught:
        tiledsl.trace(call, x, q, s)
    assert words in str(caught.value)


@pytest.mark.parametrize("dtype", [tile.i8, tile.i4, tile.u8, tile.u4])
@pytest.mark.parametrize("size", [1e-6, 6e-5, 1e-38, 0.0])
def test_groups_of_tiny_numbers_have_scales(dtype: Any, size: float) -> None:
    """In f16 they may be smaller than any scale; what they become is never further off than half of the scale."""
    x = (normal(4, 32) * size).astype(F16)
    q, scales, *zeros = map(np.asarray, ops.quantise(x, dtype, group=8, symmetric=dtype.is_signed))
    assert np.all(scales > 0)
    back = np.asarray(ops.dequantise(q, scales, *zeros, dtype=dtype, group=8), np.float64)
    assert np.all(np.abs(back - x) <= 0.51 * spread(scales, 8, 32))


def test_no_elements() -> None:
    x = np.zeros((3, 0), F32)
    for dtype in (tile.i8, tile.i4):
        q, scales = ops.quantise(x, dtype)
        assert np.asarray(q).shape == (3, 0)
        assert np.asarray(ops.dequantise(q, scales, dtype=dtype)).shape == (3, 0)


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("group", [None, 4])
def test_sizes_that_are_open(size: int, group: int | None) -> None:
    x = normal(3, size)
    for dtype in (tile.i8, tile.i4):
        graph = tiledsl.trace(
            lambda x, dtype=dtype: ops.quantise(x, dtype, group=group), tile.spec(("N", "K"), tile.f32)
        )
        for found, wanted in zip(tiledsl.fuse(graph).build(arch="cpu")(x), ops.quantise(x, dtype, group=group)):
            assert np.array_equal(found, np.asarray(wanted))
