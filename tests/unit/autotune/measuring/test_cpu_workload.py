"""Programs on the CPU as workloads: in this process, and with a clock that the test moves on."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gemm import gemm
from softmax import softmax
from tiledsl import tile
from tiledsl.autotune.candidates.cpu_candidates import CpuSpace, cpu_candidates
from tiledsl.autotune.measuring.cases import Case
from tiledsl.autotune.measuring.cpu_workload import CpuBench, CpuWorkload
from tiledsl.autotune.measuring.given import GivenArrays
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.measuring.tensors import Tensor
from tiledsl.autotune.measuring.verify import Oracle, verify
from tiledsl.backend_cpu.calls.program import CpuProgram, question_of
from tiledsl.passes.cpu.cpu_plan import CpuPlan, parse_cpu_plan
from tiledsl.runtime.arrays.arrays import Array, element_strides, row_major
from tiledsl.runtime.calls.binding import bind_sizes
from tiledsl.runtime.calls.launch import new_arrays

F32 = np.float32
RANDOM = np.random.default_rng(0)


def workload(kernel: Any, arrays: Sequence[Array], numbers: Sequence[float] = ()) -> CpuWorkload:
    compiled = kernel.compile(*arrays, *numbers)
    assert isinstance(compiled.program, CpuProgram)
    sizes = bind_sizes(compiled.interface, [array.shape for array in arrays])
    strides = [*map(element_strides, arrays), *(row_major(new.shape) for new in new_arrays(compiled.interface, sizes))]
    question = question_of(compiled.program, sizes, strides, 2)
    text = compiled.ir(stage="front")
    chosen = CpuSpace(compiled.program, question).pick.plan
    given = GivenArrays(tuple(arrays))
    return CpuWorkload.of(compiled.program, compiled.interface, text, question, given, tuple(numbers), chosen)


def opened(work: CpuWorkload) -> CpuBench:
    bench = pickle.loads(pickle.dumps(work)).open()
    bench.prepare()
    return bench


def pick(work: CpuWorkload) -> str:
    return work.pick


def normal(*shape: int) -> Array:
    drawn: Any = RANDOM.standard_normal(shape)
    return drawn.astype(F32)


@pytest.mark.parametrize("kernel", [gemm, softmax])
def test_whatever_the_limits_allow_is_right(kernel: Any) -> None:
    arrays = [normal(300, 530), normal(530, 310)] if kernel is gemm else [normal(600, 90)]
    work, source = workload(kernel, arrays), random.Random(0)
    space, bench = CpuSpace(CpuProgram.from_bytes(work.program), work.question), opened(work)
    plan = parse_cpu_plan(space.pick.plan)
    for _ in range(8):
        axes = space.axes.items()
        sizes = {name: axis.unit * source.randint(1, axis.limit // axis.unit) for name, axis in axes}
        drawn = CpuPlan(tuple(sizes.items()), (source.choice([1, 2]),) * len(plan.threads))
        assert space.is_legal(drawn)
        checked = fully(bench, str(drawn))
        assert (checked.state, checked.reason) == ("ok", "")


def fully(bench: CpuBench, plan: str) -> Checked:
    """All checks of a plan."""
    first = bench.check(plan)
    return first if first.state != "ok" else first.and_then(bench.confirm(plan))


def test_tensors_whose_elements_share_memory() -> None:
    x = Tensor("x", "input", (4, 3), (1, 1), np.dtype(F32))  # windows of a vector
    y = Tensor("y", "result", (4, 3), (3, 1), np.dtype(F32))
    case = Case("given", {}, (x, y), (normal(4, 3),), ())

    def double(case: Case, arrays: list[Array]) -> None:
        np.multiply(arrays[0], 2, out=arrays[1])

    assert verify([case], double, Oracle(double)).state == "ok"


@tile.kernel
def shifted(x: tile.Tensor, table: tile.Tensor, by: float) -> None:
    """Adds to x, in place, what a table of subscripts says."""
    for n in tile.grid(x.shape[0]):
        x[n] = x[n] + by * table[n].to(tile.f32)


def test_every_candidate_of_a_product_is_right() -> None:
    work = workload(gemm, [normal(48, 80), np.transpose(normal(64, 80))])
    space, bench = CpuSpace(CpuProgram.from_bytes(work.program), work.question), opened(work)
    candidates = cpu_candidates(space, [], 20)
    assert len(candidates) > 8
    for candidate in (space.pick, *candidates):
        checked = fully(bench, candidate.plan)
        assert (checked.state, checked.reason) == ("ok", "")
        assert checked.checked == ("given", "repeated", "random", "odd")
        assert checked.code == work.question.program
        assert checked.error is not None
        assert checked.error < 1e-4


def test_what_is_written_in_place_is_compared_and_subscripts_stay_as_they_are() -> None:
    work = workload(shifted, [normal(1000), np.arange(1000)], [0.5])
    checked = fully(opened(work), pick(work))
    assert (checked.state, checked.reason) == ("ok", "")
    assert checked.checked == ("given", "repeated", "random"), "integers may be subscripts: no odd sizes"


@tile.kernel
def histogram(x: tile.Tensor, weights: tile.Tensor) -> tile.Tensor:
    """Sums of weights by numbers, in no order."""
    sums = tile.zeros(8, tile.f32)
    for n in tile.grid(x.shape[0]):
        tile.atomic_add(sums[x[n]], weights[n])
    return sums


def test_atomic_sums_may_differ_from_run_to_run() -> None:
    work = workload(histogram, [RANDOM.integers(0, 8, 5000), normal(5000)])
    checked = fully(opened(work), pick(work))
    assert (checked.state, checked.reason) == ("ok", "")
    assert checked.checked == ("given", "random")


@tile.kernel
def roots(x: tile.Tensor) -> tile.Tensor:
    """Of numbers that must not be negative."""
    y = tile.empty(x.shape, x.dtype)
    for n in tile.grid(x.shape[0]):
        tile.assert_(tile.all(x[n] >= 0))
        y[n] = tile.sqrt(x[n])
    return y


def test_what_breaks_an_assertion_at_random_is_no_case() -> None:
    work = workload(roots, [np.abs(normal(200))])
    checked = fully(opened(work), pick(work))
    assert (checked.state, checked.reason) == ("ok", "")
    assert checked.checked == ("given", "repeated", "odd")


def test_a_plan_that_the_code_cannot_run_by() -> None:
    work = workload(gemm, [normal(32, 32), normal(32, 32)])
    assert opened(work).check("m=7, n=16, k=8, 1 threads").state == "refused"


def test_another_program_than_the_text_says_is_wrong() -> None:
    work = workload(gemm, [normal(32, 32), normal(32, 32)])
    text = work.text.replace("value = 0.0", "value = 1.0")
    assert text != work.text
    mixed = replace(work, text=text)
    checked = opened(mixed).check(pick(work))
    assert checked.state == "wrong"
    assert "`c` differs from the reference in" in checked.reason


def test_samples_are_calls_between_two_looks_at_the_clock() -> None:
    work = workload(shifted, [normal(64), np.arange(64)], [0.5])
    bench = opened(work)
    ticks = iter(range(100))
    bench.clock = lambda: float(next(ticks))
    assert [bench.seconds(pick(work)) for _ in range(3)] == [1.0, 1.0, 1.0]
    assert next(ticks) == 8, "one call to see how long it takes, then two looks for each sample"


def test_short_calls_are_made_several_times() -> None:
    work = workload(gemm, [normal(16, 16), normal(16, 16)])
    bench = opened(work)
    times = iter([0.0, 2e-6, 10.0, 10.0001])
    bench.clock = lambda: next(times)
    assert bench.seconds(pick(work)) == pytest.approx(2e-6)
