"""Loops whose rows do not need each other become one kernel; others are launched, by programs that are planned once."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import normal
from tiledsl import tile
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.graph.loops.loops_in_kernels import LoopsInKernels
from tiledsl.passes.manager import PassContext, PassManager

X, C, W = normal(7, 3, 8), normal(3, 8, seed=1), normal(8, 8, seed=2, scale=0.3)
Formula = Callable[..., Any]

DECAY = """
func @f(%x: tensor<f32, [7, 3, 8]>, %h: tensor<f32, [3, 8]>, %d: tensor<f32, [8]>) {
  %last, %ys = graph.loop([%h], [%x], [%d]) {callee = step, count = 7} : tensor<f32, [3, 8]>, tensor<f32, [7, 3, 8]>
  graph.return([%last, %ys])
}
func @step(%c: tensor<f32, [3, 8]>, %x: tensor<f32, [3, 8]>, %d: tensor<f32, [8]>) {
  %rows = graph.broadcast(%d) {shape = [3, 8]}
  %kept = graph.map([%c, %rows]) {fn = mul}
  %n = graph.map([%kept, %x]) {fn = add}
  %y = graph.map([%n]) {fn = tanh}
  graph.return([%n, %y])
}
"""


def test_a_recurrence_becomes_a_tile_program() -> None:
    module = PassManager([LoopsInKernels()]).run(parse_module(DECAY))
    text = print_module(module)
    assert "graph.call([%h, %d, %x]) {callee = step_loop}" in text
    assert "graph.loop" not in text
    assert "%x: tensor<f32, [T, M, N], unit=2>" in text
    assert "tile.range(%3, %4, [%2]) {blocks = [1]}" in text
    assert "tile.load(%x, [%t, %m, %n_1]) {in_bounds = [0]}" in text


def decayed(c: Any, x: Any) -> Any:
    n = c * 0.9 + x
    return n, tile.tanh(n)


def normed(c: Any, x: Any) -> Any:
    n = c + x
    n = n / tile.sqrt(tile.mean(n * n, axis=-1, keepdims=True) + 1.0)
    return n, tile.sum(n, axis=-1, keepdims=True)


def fibonacci(c: Any, x: Any) -> Any:
    a, b = c
    return (b, 0.5 * a + b + x), a


def halves(c: Any, x: Any) -> Any:
    n = c + x[:, :4] * x[:, 4:]
    return n, n


def weighted(c: Any, x: Any) -> Any:
    n = c + x
    return n, tile.einsum("m n, m n -> m", n, x)


def counted(c: Any, x: Any) -> Any:
    h, t = c
    return (h + x * t.to(tile.f32), t + 1), None


def delayed(c: Any, x: Any) -> Any:
    return x, c


def apart(c: Any, x: Any) -> Any:
    """What is stacked reads no carry, and has other axes."""
    return c * 0.5 + x, tile.max(x, axis=-1)


IN_ONE_KERNEL: dict[str, tuple[Formula, Any]] = {
    "elements that are carried on": (delayed, C),
    "elementwise": (decayed, C),
    "folds of whole rows": (normed, C),
    "values that change places": (fibonacci, (C, C + 1)),
    "parts of elements": (halves, C[:, :4]),
    "products that are none of matrices": (weighted, C),
    "zeros at first": (decayed, np.zeros_like(C)),
}


def scanned(step: Formula, **options: Any) -> Formula:
    return lambda x, c: tiledsl.scan(step, c, x, **options)


def flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flat(part)]
    return [] if result is None else [result]


def expected(step: Formula, c: Any, reverse: bool) -> list[Any]:
    return flat(tiledsl.trace(scanned(step, reverse=reverse), X, c)(X, c))


@pytest.mark.parametrize("arch", ["cpu", "sm_90"])
@pytest.mark.parametrize("name", IN_ONE_KERNEL)
def test_one_kernel(name: str, arch: str) -> None:
    step, c = IN_ONE_KERNEL[name]
    fused = tiledsl.fuse(tiledsl.trace(scanned(step), X, c))
    assert fused.ir(arch).count("graph.call(") == 1
    built = fused.build(arch)
    if arch == "cpu":
        for result, wanted in zip(flat(built(X, c)), expected(step, c, reverse=False)):
            assert_close(result, wanted)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["elementwise", "folds of whole rows", "values that change places"])
def test_steps_a_few_at_a_time_in_the_emulator(name: str, reverse: bool) -> None:
    """On GPUs a turn has several steps; seven are one turn of several, and some that are left, or all of them."""
    step, c = IN_ONE_KERNEL[name]
    kernel = tile.kernel(lambda x, c: tiledsl.scan(step, c, x, reverse=reverse))
    for result, wanted in zip(flat(kernel.emulate(X, c, arch="sm_90")), expected(step, c, reverse)):
        assert_close(result, wanted)


def multiplied(c: Any, x: Any) -> Any:
    n = tile.tanh(c @ W + x)
    return n, n


LAUNCHED: dict[str, tuple[Formula, Any, str]] = {
    "a product of what is carried": (multiplied, C, "a step has a product of matrices"),
    "a carry without the rows": (counted, (C, np.int64(0)), "a step is not one kernel: results of different axes"),
    "other places of what is carried": (lambda c, x: (c[:, ::-1] + x, c), C, "a step"),
}


@pytest.mark.parametrize("name", LAUNCHED)
def test_launched_step_by_step(name: str) -> None:
    step, c, reason = LAUNCHED[name]
    context = PassContext()
    graph = tiledsl.trace(scanned(step, reverse=True), X, c)
    fused = tiledsl.fuse(graph)
    assert "graph.loop(" in print_module(fused.lowered("cpu", {}, context))
    (remark,) = [str(r) for r in context.remarks if r.pass_name == "loops-in-kernels"]
    assert f"is launched: {reason}" in remark
    for result, wanted in zip(flat(fused.build("cpu")(X, c)), expected(step, c, reverse=True)):
        assert_close(result, wanted, relative=1e-5)
    fused.build("sm_90")


def test_what_reads_no_carry_may_be_made_in_front_of_the_loop() -> None:
    graph = tiledsl.trace(scanned(apart, reverse=True), X, C)
    assert "graph.loop" not in tiledsl.fuse(graph).ir()
    for result, wanted in zip(tiledsl.fuse(graph).build("cpu")(X, C), graph(X, C)):
        assert_close(result, wanted)


def test_steps_that_carry_nothing_are_no_loop() -> None:
    """All elements at once, as far as ops can stand in front of a loop; a gather stays in it."""
    rows = np.array([[1, 0, 2]] * 7)
    for step, sequences, launches in (
        (lambda c, x: (c, tile.tanh(x[0]) @ W), (X,), 1),
        (lambda c, x: (c, x[0][x[1]] * 2.0), (X, rows), 7),
    ):
        graph = tiledsl.trace(lambda *xs, step=step: tiledsl.scan(step, (), xs), *sequences)
        lowered = tiledsl.fuse(graph).lowered("cpu")
        schedule = schedule_graph(lowered, graph.inputs, graph.constants).schedule
        assert len(schedule.steps) >= launches
        assert ("graph.loop" in print_module(lowered)) == (launches > 1)
        for result, wanted in zip(flat(tiledsl.fuse(graph).build("cpu")(*sequences)), flat(graph(*sequences))):
            assert_close(result, wanted)


def test_launches_and_memory_of_steps() -> None:
    """One program, launched for each step; what is carried from one to the next takes turns in few buffers."""
    schedules: list[Any] = []
    for count in (4, 40):
        graph = tiledsl.trace(lambda x, c: tiledsl.scan(lambda c, x: (tile.tanh(c @ W + x), None), c, x),
                              np.zeros((count, 3, 8), np.float32), C)  # fmt: skip
        lowered = tiledsl.fuse(graph).lowered("cpu")
        schedules.append(schedule_graph(lowered, graph.inputs, graph.constants))
    for scheduled, count in zip(schedules, (4, 40)):
        assert len(scheduled.functions) == 1
        assert len(scheduled.schedule.steps) == count
    assert len({len(scheduled.schedule.buffers) for scheduled in schedules}) == 1


def test_what_is_stacked_is_stored_in_the_order_in_which_it_is_read() -> None:
    def batches_first(x: Any, c: Any) -> Any:
        last, ys = tiledsl.scan(decayed, c, x.transpose((1, 0, 2)))
        return last, ys.transpose((1, 0, 2))

    x = normal(3, 7, 8)
    graph = tiledsl.trace(batches_first, x, C)
    lowered = tiledsl.fuse(graph).lowered("cpu")
    assert len(schedule_graph(lowered, graph.inputs, graph.constants).schedule.steps) == 1
    for result, wanted in zip(tiledsl.fuse(graph).build("cpu")(x, C), graph(x, C)):
        assert_close(result, wanted)


@pytest.mark.parametrize("step", [decayed, multiplied])
def test_sizes_that_are_left_open(step: Formula) -> None:
    """The number of steps too: a module is made for each."""
    graph = tiledsl.trace(scanned(step), tile.spec(("T", "B", 8), tile.f32), tile.spec(("B", 8), tile.f32))
    built = tiledsl.fuse(graph).build("cpu")
    for x, c in ((X, C), (X[:2, :1], C[:1]), (X[:0], C)):
        for result, wanted in zip(built(x, c), graph(x, c)):
            assert_close(result, wanted, relative=1e-5)


def test_a_loop_in_a_step() -> None:
    def outer(c: Any, x: Any) -> Any:
        last, rows = tiledsl.scan(lambda a, r: (a * 0.5 + r, a), c[0], x)
        return tile.tanh(c @ W + last), rows

    graph = tiledsl.trace(scanned(outer), X, C)
    assert graph.ir().count("graph.loop(") == 2
    for result, wanted in zip(tiledsl.fuse(graph).build("cpu")(X, C), graph(X, C)):
        assert_close(result, wanted, relative=1e-5)


def test_a_number_as_carry_begins_as_what_the_step_makes_of_it() -> None:
    """The step is traced again for that, and what it traced before is gone."""
    inner = lambda x: tiledsl.scan(lambda a, r: (a + r, None), 0.0, x)[0]  # noqa: E731
    graph = tiledsl.trace(lambda x: tiledsl.scan(lambda c, r: (c + inner(r[0]), c), 0, x), X)
    assert graph.ir().count("func @") == 3
    last, before = graph(X)
    assert last.dtype == np.float32
    assert np.allclose(last, X[:, 0].sum(), atol=1e-4)
    assert np.allclose(before, np.concatenate([[0], np.cumsum(X[:, 0].sum(axis=1))[:-1]]), atol=1e-4)


@tile.kernel
def shifted(x: Any) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] + x[m, n + 1]
    return y


def test_a_kernel_in_tile_form_in_a_step() -> None:
    graph = tiledsl.trace(scanned(lambda c, x: (shifted(c) * 0.5 + x, c)), X, C)
    for result, wanted in zip(tiledsl.fuse(graph).build("cpu")(X, C), graph(X, C)):
        assert_close(result, wanted)
