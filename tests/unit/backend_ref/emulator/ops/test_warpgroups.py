"""Products by warpgroups: their numbers, what is in flight, which registers are kept."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.gpu_code.emulated import fault, outcomes, run, shared, small
from tests.support.hopper.async_programs import Product, product
from tests.support.hopper.hopper_text import Array, accumulator, left_operand
from tiledsl.backend_ref.emulator.emulate import emulate

# Numbers

KINDS = [
    Product("m64n64k16_bf16_f32"),
    Product("m64n64k16_bf16_f32", spans=(64, 32)),
    Product("m64n64k16_bf16_f32", spans=(0, 128)),
    Product("m64n8k16_bf16_f32", (64, 8, 64)),
    Product("m64n24k16_bf16_f32", (64, 24, 128)),
    Product("m64n64k16_bf16_f32", (128, 64, 64), (2, 1)),
    Product("m64n64k16_bf16_f32", (64, 128, 64), (1, 2)),
    Product("m64n64k16_bf16_f32", onto=5),
    Product("m64n64k16_bf16_f32", across="b"),
    Product("m64n64k16_bf16_f32", across="ab", spans=(64, 64)),
    Product("m64n64k16_bf16_f32", (128, 64, 64), left=True),
    Product("m64n128k16_f16_f32", (64, 128, 64), across="b"),
    Product("m64n64k16_f16_f16"),
    Product("m64n64k8_tf32_f32"),
    Product("m64n64k8_tf32_f32", left=True),
    Product("m64n64k32_f8e4m3_f32", (64, 64, 128)),
    Product("m64n64k32_f8e4m3_f32", (64, 64, 128), left=True),
    Product("m64n96k32_i8_i32", (64, 96, 128)),
    Product("m64n64k32_i8_i32", (64, 64, 128), left=True),
]


@pytest.mark.parametrize("spec", KINDS, ids=str)
@pytest.mark.parametrize("seed", [None, 1])
def test_numbers(spec: Product, seed: int | None) -> None:
    program = product(spec)
    program.check(lambda function, arguments: emulate(function, arguments, seed=seed).results)


def test_tf32_takes_ten_bits_of_fraction() -> None:
    program = product(Product("m64n64k8_tf32_f32"))
    a, b = np.eye(64, dtype=np.float32), np.full((64, 64), 1 + 2**-12, np.float32)
    (result,) = emulate(program.module.entry, [a, b]).results
    assert np.unique(result).tolist() == [1.0]
    (result,) = emulate(program.module.entry, [a, np.full((64, 64), 1 + 2**-10, np.float32)]).results
    assert np.unique(result).tolist() == [1 + 2**-10]


# In flight

TOTAL = f"tile<f32, [64, 64], register, {accumulator(64, 64)}>"
ROWS = "layout = rows(0, 1, swizzle=(3, 4, 3))"
AS = f"%as = gpu.buffer() {{shape = [64, 64], dtype = bf16, {ROWS}, offset = 0}}"
BS = f"%bs = gpu.buffer() {{shape = [64, 64], dtype = bf16, {ROWS}, offset = 8192}}"
FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 16384}"
READY = f"""%acc = tile.broadcast(%f0) {{shape = [64, 64]}} : {TOTAL}
gpu.mbarrier_expect(%full, %0) {{bytes = 16384}}
gpu.tma_load(%a, [%m, %0], %as, [%0, %0], %full, %0) {{axes = [0, 1], places = [0, 1], shape = [64, 64]}}
gpu.tma_load(%b, [%0, %0], %bs, [%0, %0], %full, %0) {{axes = [0, 1], places = [0, 1], shape = [64, 64]}}
gpu.mbarrier_wait(%full, %0, %0)
"""
FENCE, COMMIT = "gpu.wgmma_fence()\n", "gpu.wgmma_commit()\n"
LEFT = f"""%left = gpu.read(%as, [%0, %0]) {{places = [0, 1], shape = [64, 64], layout = {left_operand(64, 64)}}}
"""


def multiply(result: str, acc: str, left: str = "") -> str:
    a = f"{left}, []" if left else "%as, [%0, %0]"
    axes = "" if left else "a_axes = [0, 1], "
    return f"""%{result} = gpu.wgmma({a}, %bs, [%0, %0], %{acc})
    {{depth = 64, {axes}b_axes = [1, 0], instruction = m64n64k16_bf16_f32}}
    """


def land(values: dict[str, str], groups: int = 0) -> str:
    names = ", ".join(f"%{name}" for name in values)
    results = ", ".join(f"%{name}" for name in values.values())
    return f"{results}{' = ' if results else ''}gpu.wgmma_wait([{names}]) {{groups = {groups}}}\n"


def keep(value: str) -> str:
    return f"gpu.store(%out, [%m, %0], %{value}, []) {{axes = [0, 1], vector = 2}}\n"


def program(body: str) -> str:
    return small(
        READY + body, shared(AS, BS, FULL, bytes=16392), threads=128, result="f32, [M, 64]",
        parameters="%a: tensor<bf16, [M, 64], unit=1>, %b: tensor<bf16, [64, 64], unit=1>",
    )  # fmt: skip


def operands() -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return a, b


def expected(times: int = 1) -> list[Any]:
    a, b = (one.astype(np.float32) for one in operands())
    return np.asarray(times * np.matmul(a, np.transpose(b))).tolist()


def assert_right(body: str, times: int = 1) -> None:
    for seed in (None, 0, 1, 2):
        (result,) = run(program(body), *operands(), seed=seed)
        assert result.tolist() == expected(times)


def code(body: str) -> set[str]:
    return outcomes(program(body), *operands(), seeds=(None, 0, 1))


ONE = FENCE + multiply("sum", "acc") + COMMIT
TWO = ONE + multiply("more", "sum") + COMMIT


def test_products_that_follow_add_to_what_is_in_flight() -> None:
    assert_right(TWO + land({"more": "total"}) + keep("total"), times=2)
    assert_right(
        ONE.removesuffix(COMMIT) + multiply("more", "sum") + COMMIT + land({"more": "total"}) + keep("total"), 2
    )


def test_nothing_else_may_read_what_is_in_flight() -> None:
    twice = f"%twice = tile.map([%sum, %sum]) {{fn = add}} : {TOTAL}\n"
    assert code(ONE + twice + land({"sum": "total"}) + keep("total")) == {"emulator-accumulator"}
    assert code(ONE + land({}) + keep("sum")) == {"emulator-accumulator"}


@pytest.mark.parametrize("groups", [0, 1])
def test_a_wait_may_leave_groups(groups: int) -> None:
    other = FENCE + multiply("sum", "acc") + COMMIT + multiply("apart", "acc") + COMMIT
    body = other + land({"sum": "total"}, groups) + keep("total") + land({"apart": "end"})
    assert_right(body)


def test_a_wait_that_leaves_too_many() -> None:
    found = fault(program(TWO + land({"more": "total"}, 1) + keep("total")), *operands())
    assert found.code == "emulator-accumulator-unwaited"
    assert found.fix == "let fewer groups be under way after it, `groups`: 0"


def test_a_product_that_was_not_committed() -> None:
    body = ONE.removesuffix(COMMIT) + land({"sum": "total"}) + keep("total")
    found = fault(program(body), *operands())
    assert found.code == "emulator-accumulator-unwaited"
    assert "commit it first" in found.fix


def test_products_under_way_at_the_end() -> None:
    assert code(ONE) == {"emulator-exit"}


AGAIN = f"%again = tile.map([%acc, %acc]) {{fn = add}} : {TOTAL}\n"


@pytest.mark.parametrize("body", [multiply("sum", "acc") + COMMIT, FENCE + AGAIN + multiply("sum", "again") + COMMIT])
def test_a_fence_comes_after_the_last_change(body: str) -> None:
    assert code(body + land({"sum": "total"}) + keep("total")) == {"emulator-wgmma-fence"}


def test_landed_registers_that_nobody_changed_need_no_fence() -> None:
    again = multiply("more", "total") + COMMIT + land({"more": "end"}) + keep("end")
    assert_right(ONE + land({"sum": "total"}) + again, times=2)


# Operands


def test_buffers_are_in_use_until_the_wait() -> None:
    fill = f"%z = gpu.read(%bs, [%0, %0]) {{places = [0, 1], shape = [64, 64], layout = {accumulator(64, 64)}}}\n"
    write = "gpu.write(%as, %z, [%0, %0]) {places = [0, 1]}\n"
    late = fill + ONE + land({"sum": "total"}) + "gpu.barrier()\n" + write + keep("total")
    early = fill + ONE + "gpu.barrier()\n" + write + land({"sum": "total"}) + keep("total")
    assert code(late) == {""}
    found = fault(program(early), *operands(), seed=None)
    assert found.code == "emulator-race-under-way"
    assert "`gpu.wgmma` reads" in found.message


FROM_LEFT = LEFT + FENCE + multiply("sum", "acc", "%left") + COMMIT


def test_operands_in_registers_are_named_in_the_wait() -> None:
    assert_right(FROM_LEFT + land({"sum": "total", "left": "kept"}) + keep("total"))
    found = fault(program(FROM_LEFT + land({"sum": "total"}) + keep("total")), *operands())
    assert found.code == "emulator-operand-registers"
    assert found.fix == "name %left among the values of the wait"


def test_operands_in_registers_are_named_in_the_wait_that_ends_their_product() -> None:
    """A wait that leaves the product under way need not name them, one after it need not any more."""
    body = FROM_LEFT + multiply("apart", "acc") + COMMIT
    body += land({"sum": "total", "left": "kept"}, 1) + land({"apart": "end"}) + keep("total")
    assert_right(body)
    late = FROM_LEFT + multiply("apart", "acc") + COMMIT + land({"sum": "total"}, 1)
    late += land({"apart": "end", "left": "kept"}) + keep("total")
    assert code(late) == {"emulator-operand-registers"}


def test_written_by_threads_needs_a_fence_and_a_barrier() -> None:
    other = f"layout = {accumulator(64, 64)}"
    copy = f"%z = gpu.read(%as, [%0, %0]) {{places = [0, 1], shape = [64, 64], {other}}}\n"
    write = "gpu.write(%as, %z, [%0, %0]) {places = [0, 1]}\n"
    rest = ONE + land({"sum": "total"}) + keep("total")
    assert_right(copy + write + "gpu.proxy_fence()\ngpu.barrier()\n" + rest)
    assert code(copy + write + "gpu.barrier()\n" + rest) == {"emulator-proxy-fence"}
    assert code(copy + write + "gpu.proxy_fence()\n" + rest) == {"emulator-race"}


def test_the_swizzle_is_that_of_the_bytes() -> None:
    """Read as though it were swizzled otherwise, a buffer gives other numbers: nobody rights it in silence."""
    other = BS.replace("%bs", "%other").replace("(3, 4, 3)", "(2, 4, 3), panel=32")
    body = (ONE + land({"sum": "total"}) + keep("total")).replace("%bs, [", "%other, [")
    text = program(body).replace(BS, BS + "\n    " + other)
    (result,) = run(text, *operands())
    assert result.tolist() != expected()
