"""Which values may be coarse, and how far off coarse functions are."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.gpu_cases.scalar_operands import Array, bits, in_range, ulps_apart
from tests.support.gpu_code.device_functions import Case, HostLibrary, compile_for_host, host_compiler
from tests.support.gpu_code.gpu_programs import program
from tests.support.gpu_code.sass import disassemble
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.backend_cuda.values.coarse_values import COARSE_FUNCTIONS, UNIT, coarse_values
from tiledsl.backend_ref.scalar_functions import FUNCTIONS, cast
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import DType, bf16, f16, f32, f64
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.text.parser import parse_module

ROW = "local(1) * spatial(32) * local(4)"
TILE = f"tile<f32, [128], register, {ROW}>"
PARAMETERS = "%x: tensor<bf16, [128], unit=0>, %f: tensor<f32, [128], unit=0>, %y: tensor<bf16, [128], unit=0>"
LOAD = f"""
    %a = gpu.load(%x, [%zero], []) {{axes = [0], shape = [128], layout = {ROW}}}
    %b = gpu.load(%f, [%zero], []) {{axes = [0], shape = [128], layout = {ROW}}}
    %row = tile.cast(%a) {{dtype = f32}}
"""
STORE = """
    %short = tile.cast(%result) {dtype = bf16}
    gpu.store(%y, [%zero], %short, []) {axes = [0]}
    tile.yield([])
"""


def module_of(body: str) -> Module:
    """A program of one block; maps and casts are of tiles, and in one layout."""

    def typed(line: str) -> str:
        found = re.search(r"= tile\.(?:map|cast)\(.*\{(?:dtype|fn) = (\w+)\}$", line)
        if found is None:
            return line
        dtype = {"lt": "bool"}.get(found[1], found[1] if "tile.cast" in line else "f32")
        return f"{line} : {TILE.replace('f32', dtype)}"

    lines = (LOAD + body + STORE).splitlines()
    return parse_module(program("\n".join(typed(line.rstrip()) for line in lines), PARAMETERS))


def coarse(body: str) -> dict[str, DType]:
    """By name, the coarse values of a program that rounds %result to bf16 and stores it."""
    (launch,) = (op for op in module_of(body).entry.body.ops if isinstance(op, Launch))
    return {value.name: dtype for value, dtype in coarse_values(launch.body).items() if value.name}


def test_a_softmax() -> None:
    body = f"""
    %top = gpu.reduce([%row]) {{axes = [0], fn = max, keepdims = true}}
    %tops = tile.broadcast(%top) {{shape = [128]}} : {TILE}
    %d = tile.map([%row, %tops]) {{fn = sub}}
    %e = tile.map([%d]) {{fn = exp}}
    %sum = gpu.reduce([%e]) {{axes = [0], fn = add, keepdims = true}}
    %sums = tile.broadcast(%sum) {{shape = [128]}} : {TILE}
    %result = tile.map([%e, %sums]) {{fn = div}}
    """
    assert coarse(body) == dict.fromkeys(["e", "sum", "sums", "result"], bf16)
    text = emit_program(module_of(body), 90).text
    assert "exp_approx(d_)" in text
    assert "div_approx(" in text
    assert "expf" not in text
    counts = disassemble(compile_cubin(text, "sm_90", "softmax"))["f"].counts
    assert counts["MUFU"] == 5  # four exponentials, and one reciprocal for all elements


def written(steps: str) -> str:
    """Maps by their functions, folds whose results are spread again, or ops as they are.

    `v = exp row; s = reduce-add v; %result = tile.map([%v, %s]) {fn = div}`
    """
    lines: list[str] = []
    for step in steps.split("; "):
        if step.startswith(("%", "gpu.", "tile.")):
            lines.append(step)
            continue
        name, fn, *operands = step.replace(" =", "").split()
        if fn.startswith("reduce-"):
            fold = fn.removeprefix("reduce-")
            lines.append(f"%{name}_fold = gpu.reduce([%{operands[0]}]) {{axes = [0], fn = {fold}, keepdims = true}}")
            lines.append(f"%{name} = tile.broadcast(%{name}_fold) {{shape = [128]}} : {TILE}")
        else:
            lines.append(f"%{name} = tile.map([{', '.join(f'%{v}' for v in operands)}]) {{fn = {fn}}}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "steps",
    [
        "v = exp row; result = mul v row",
        "v = exp row; result = div row v",
        "v = exp row; result = add v f1",
        "v = div row b; result = sqrt v",
        "v = div row b; n = neg v; result = abs n",
        "v = div row b; result = maximum v f0",
        "v = div row b; square = mul v v; result = reduce-add square",
        "v = div row b; result = reduce-max v",
        "c = lt b f1; v = exp row; result = where c v row",
        "v = exp row; result = tanh v",
        "v = exp row; sum = add v f1; result = log sum",
        "v = exp row; %result = gpu.pad(%v, [%one], %f0) {axes = [0]}",
    ],
)
def test_passes_relative_errors_on(steps: str) -> None:
    assert "v" in coarse(written(steps))


@pytest.mark.parametrize(
    "steps",
    [
        # where numbers may cancel
        "v = exp row; result = add v row",
        "v = exp row; result = sub v f1",
        "v = div row b; result = reduce-add v",
        # where relative errors become larger ones
        "v = div row b; result = exp v",
        "v = exp row; result = log v",
        "v = exp row; sum = add v f0; result = log sum",
        "v = div row b; sum = add v f1; result = log sum",
        "v = exp row; sum = add v f1; result = log sum; result2 = reduce-mul sum",
        "v = exp row; result = reduce-mul v",
        # seen as they are
        "v = exp row; c = lt v f1; result = where c v row",
        "v = exp row; gpu.store(%f, [%zero], %v, []) {axes = [0]}; result = abs v",
        "v = exp row; %i = tile.cast(%v) {dtype = i32}; result = abs v",
        "v = exp row; %w = tile.cast(%v) {dtype = f64}; %result = tile.cast(%w) {dtype = f32}",
        'v = exp row; tile.print([%v]) {text = ""}; result = abs v',
    ],
)
def test_must_be_accurate(steps: str) -> None:
    assert "v" not in coarse(written(steps))


def test_buffers() -> None:
    def through(more: str) -> dict[str, DType]:
        access = f"{{places = [0], shape = [128], layout = {ROW}}} : {TILE}"
        return coarse(f"""
        %v = tile.map([%row]) {{fn = exp}}
        %buffer = gpu.buffer() {{shape = [128], dtype = f32, layout = rows(0), offset = 0}}
        gpu.write(%buffer, %v, [%zero]) {{places = [0]}}
        gpu.barrier()
        %again = gpu.read(%buffer, [%zero]) {access}
        %other = gpu.read(%buffer, [%zero]) {access}
        %result = tile.map([%again]) {{fn = abs}}
        {more}
        """)

    assert "v" in through("")
    assert "v" not in through("gpu.store(%f, [%zero], %other, []) {axes = [0]}")


LOOP = f"""
    %start = tile.map([%row]) {{fn = abs}}
    %total = tile.for(%zero, %one, %one, [%start]) : {TILE} body(%i: i64, %carried: {TILE}) {{
      %v = tile.map([%row]) {{fn = exp}}
      %factor = tile.map([%b]) {{fn = exp}}
      NEXT
      tile.yield([%next])
    }}
    %result = tile.map([%total, %b]) {{fn = div}}
"""


def test_loops_may_add_what_is_coarse_but_not_multiply_by_it() -> None:
    added = "%scaled = tile.map([%carried, %factor]) {fn = mul}\n%next = tile.map([%scaled, %v]) {fn = add}"
    found = coarse(LOOP.replace("NEXT", added))
    assert "v" in found
    assert not {"factor", "scaled", "next"} & set(found)
    assert "v" not in coarse(LOOP.replace("NEXT", "%next = tile.map([%carried, %v]) {fn = mul}"))
    assert "v" not in coarse(LOOP.replace("NEXT", "%next = tile.map([%carried, %v]) {fn = sub}"))
    squared = "%n = tile.map([%carried, %carried]) {fn = mul}\n%next = tile.map([%n, %v]) {fn = add}"
    assert "v" not in coarse(LOOP.replace("NEXT", squared))


NESTED = f"""
    %start = tile.map([%row]) {{fn = abs}}
    %every = tile.for(%zero, %one, %one, [%start]) : {TILE} body(%tile: i64, %outside: {TILE}) {{
      %total = tile.for(%zero, %one, %one, [%FIRST]) : {TILE} body(%i: i64, %carried: {TILE}) {{
        %added = tile.map([%row]) {{fn = exp}}
        %sum = tile.map([%carried, %added]) {{fn = add}}
        tile.yield([%sum])
      }}
      %share = tile.map([%total, %start]) {{fn = div}}
      %rounded = tile.cast(%share) {{dtype = bf16}}
      gpu.store(%y, [%zero], %rounded, []) {{axes = [0]}}
      tile.yield([%NEXT])
    }}
    %result = tile.map([%every, %b]) {{fn = minimum}}
"""


def test_what_is_made_of_a_loop_within_another_is_carried_only_where_it_comes_back() -> None:
    assert "share" in coarse(NESTED.replace("FIRST", "start").replace("NEXT", "outside"))
    assert "share" not in coarse(NESTED.replace("FIRST", "outside").replace("NEXT", "share"))


def test_a_buffer_may_carry_a_value_around_a_loop() -> None:
    body = f"""
    %buffer = gpu.buffer() {{shape = [128], dtype = f32, layout = rows(0), offset = 0}}
    gpu.write(%buffer, %b, [%zero]) {{places = [0]}}
    tile.for(%zero, %one, %one, []) body(%i: i64) {{
      %before = gpu.read(%buffer, [%zero]) {{places = [0], shape = [128], layout = {ROW}}} : {TILE}
      %v = tile.map([%row]) {{fn = exp}}
      %after = tile.map([%before, %v]) {{fn = FN}}
      gpu.write(%buffer, %after, [%zero]) {{places = [0]}}
      tile.yield([])
    }}
    %result = gpu.read(%buffer, [%zero]) {{places = [0], shape = [128], layout = {ROW}}} : {TILE}
    """
    assert "v" in coarse(body.replace("FN", "maximum"))
    assert "v" not in coarse(body.replace("FN", "mul"))


def test_errors_are_added_up() -> None:
    def power(squarings: int, dtype: str) -> bool:
        steps = ["v0 = exp row", *(f"v{i + 1} = mul v{i} v{i}" for i in range(squarings))]
        steps.append(f"%narrow = tile.cast(%v{squarings}) {{dtype = {dtype}}}")
        steps.append("%result = tile.cast(%narrow) {dtype = f32}")
        return "v0" in coarse(written("; ".join(steps)))

    assert [power(n, "f16") for n in (4, 5)] == [True, False]
    assert [power(n, "bf16") for n in (7, 8)] == [True, False]


@pytest.mark.parametrize(("dtype", "wanted"), [("f16", f16), ("bf16", bf16), ("f8e5m2", bf16)])
def test_the_finest_rounding_counts(dtype: str, wanted: DType) -> None:
    body = f"""
    %result = tile.map([%row]) {{fn = tanh}}
    %other = tile.cast(%result) {{dtype = {dtype}}}
    """
    assert coarse(body)["result"] == wanted
    assert ("tanh_approx" in emit_program(module_of(body), 90).text) is (wanted == bf16)


# Errors


def _case(fn: str, dtype: DType) -> Case:
    inputs = (f32,) * (2 if fn == "div" else 1)
    return Case(f"{fn}_for_{dtype}", inputs, f32, lambda o, p: scalar_function(fn, f32, o, p, coarse=dtype))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    if host_compiler() is None:
        pytest.skip("no C compiler: generated C was not run")
    folder: Path = tmp_path_factory.mktemp("host")
    return compile_for_host([_case(fn, f16) for fn in COARSE_FUNCTIONS], Preamble(), folder)


@pytest.mark.parametrize("fn", COARSE_FUNCTIONS)
def test_coarse_functions_are_off_by_a_unit_at_most(host: HostLibrary, fn: str) -> None:
    generator = np.random.default_rng(0)
    sizes = np.ldexp(generator.uniform(1, 2, 50_000), generator.integers(-148, 127, 50_000)).astype(np.float32)
    near = generator.uniform(-90, 90, 50_000).astype(np.float32)
    operands = [np.concatenate([in_range("exp"), sizes, -sizes, near])]
    if fn == "div":
        operands.append(generator.permutation(operands[0]))
    with np.errstate(all="ignore"):
        want = np.asarray(FUNCTIONS[fn](*(np.asarray(v, np.float64) for v in operands)), np.float64)
        got = host.apply(f"{fn}_for_f16", *operands).astype(np.float64)
        off = np.abs(got / want - 1)
    counts = np.isfinite(want) & (np.abs(want) >= 2.0**-126) & (np.abs(want) < 2.0**127)
    # the instructions, exact on the host, may be off by two units of f32 each
    assert counts.sum() > 10_000
    assert off[counts].max() <= UNIT - 4 * 2.0**-23
    below = np.abs(want) < 2.0**-126
    assert (np.abs(got[below]) <= 2.0**-126).all()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


def test_special_operands(host: HostLibrary) -> None:
    some = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        2.0**-149,
        -(2.0**-130),
        2.0**-127,
        2.0**126,
        2.0**127,
        3.4e38,
    ]
    x = np.array(some, np.float32)
    for fn in COARSE_FUNCTIONS:
        operands = [x] if fn != "div" else [v.ravel() for v in np.meshgrid(x, x)]
        with np.errstate(all="ignore"):
            want = np.asarray(FUNCTIONS[fn](*operands), np.float32)
        got = host.apply(f"{fn}_for_f16", *operands)
        normal = ~(np.abs(want) < 2.0**-126)
        apart = ulps_apart(cast(got, bf16), cast(want, f64), bf16)
        assert (apart[normal] <= 0.51).all(), (fn, [v[normal][apart[normal] > 0.51] for v in operands])
        assert (np.abs(got[~normal]) <= 2.0**-126).all()


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_softmax_with_the_errors_of_instructions(dtype: DType) -> None:
    """The instructions are played by exact functions, off by as much as they may be."""
    generator = np.random.default_rng(1)

    def off(values: Array, ulps: int) -> Array:
        return (values * (1 + 2.0**-23 * generator.integers(-ulps, ulps + 1, values.shape))).astype(np.float32)

    x = np.asarray(cast(generator.standard_normal((200, 4096)) * 4, dtype), np.float32)
    shifted = x - x.max(axis=1, keepdims=True)
    e = off(np.exp2((shifted * np.float32(1.442695)).astype(np.float64)), 2)
    y = e * off(1 / e.sum(axis=1, keepdims=True, dtype=np.float32).astype(np.float64), 1)
    exact = np.exp(shifted.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    got, want = cast(y, dtype), cast(exact, dtype)
    apart = np.abs(bits(got).astype(np.int64) - bits(want).astype(np.int64))
    assert apart.max() <= 1
    assert (apart == 0).mean() > (0.999 if dtype == bf16 else 0.99)
