"""How many elements of global memory are accessed at once: as many as lie side by side, whatever ends where."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.gpu_code.gpu_lowering import variants
from tests.support.kernels.lowered_kernels import lower, tensor
from tiledsl import ops, tile
from tiledsl.ir.text.printer import print_module

Formula = Callable[..., Any]
WIDE = "vector = 8"


def accesses(formula: Formula, *specs: Any) -> list[str]:
    """The accesses of the only kernel of a formula on sm_90."""
    (kernel,) = tiledsl.fuse(tiledsl.trace(formula, *specs)).build("sm_90").kernels.values()
    return [line for line in kernel.ir("gpu").splitlines() if "gpu.load" in line or "gpu.store" in line]


@pytest.mark.parametrize("length", [4099, 4098])
def test_an_odd_length_is_masked_at_its_end_alone(length: int) -> None:
    vector = tile.spec((length,), tile.f16)
    found = accesses(lambda x, y: x * y, vector, vector)
    assert len(found) == 3
    assert all(WIDE in line and "ragged" in line for line in found)


def test_a_length_of_whole_vectors_has_no_tail() -> None:
    vector = tile.spec((4096 + 8,), tile.f16)
    assert not any("ragged" in line for line in accesses(lambda x: x * 2, vector))


def test_rows_that_are_gathered_are_read_by_vectors() -> None:
    found = accesses(lambda i, w: w[i], tile.spec((64,), tile.i32), tile.spec((128, 256), tile.f16))
    assert [WIDE in line for line in found if "i32" not in line] == [True, True]


def test_columns_that_are_gathered_are_not() -> None:
    found = accesses(lambda i, w: w[:, i], tile.spec((1024,), tile.i32), tile.spec((4096, 4096), tile.f16))
    assert [WIDE in line for line in found if "i32" not in line] == [False, True]


def test_a_tail_is_accessed_by_elements() -> None:
    vector = tile.spec((4099,), tile.f16)
    (kernel,) = tiledsl.fuse(tiledsl.trace(lambda x: x * 2, vector)).build("sm_90").kernels.values()
    accesses = {word.removesuffix(".CONSTANT") for word in kernel.assembly.split()}
    assert {"LDG.E.128", "LDG.E.U16", "STG.E.128", "STG.E.U16"} <= accesses


def test_a_pad_is_a_shifted_load_under_a_mask() -> None:
    found = accesses(lambda x: tile.pad(x, ((1, 2), (3, 5))) * 2, tile.spec((500, 2048), tile.f16))
    assert len(found) == 2
    assert "checked = [0, 1]" in found[0]
    assert WIDE in found[1]


def test_windows_of_channels_are_read_by_vectors_and_their_places_together() -> None:
    image, weights = tile.spec((8, 56, 56, 64), tile.f16), tile.spec((64, 3, 3, 1), tile.f16)
    graph = tiledsl.trace(lambda x, w: ops.conv2d(x, w, padding=1, groups=64, layout="NHWC"), image, weights)
    kernels = tiledsl.fuse(graph).build("sm_90").kernels
    kernel = next(kernel for kernel in kernels.values() if "tile.range" in kernel.ir("tile"))
    (windows,) = [line for line in kernel.ir("gpu").splitlines() if "checked" in line]
    assert WIDE in windows
    assert kernel.ir("gpu").count("gpu.slice(%windows)") == 9


def halves(x: tile.Tensor, w: tile.Tensor) -> tile.Tensor:
    """Each half of a row times `w`, the halves turned round; that a row is two of `w` is nothing that sizes say."""
    M, N = x.shape
    H = w.shape[0]
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, H):
        y[m, n] = x[m, n + H] * w[n]
        y[m, n + H] = x[m, n] * w[n]
    return y


@pytest.mark.parametrize(("columns", "vector"), [(264, "vector = 4"), (260, "vector = 2"), (258, "")])
def test_what_may_lie_outside_is_accessed_by_vectors_that_are_inside_as_a_whole(columns: int, vector: str) -> None:
    """Where a block and a tensor begin and end with a vector, all of its elements are inside, or none."""
    arrays: list[Any] = [np.ones((8, columns), np.float32), np.ones(columns // 2, np.float32)]
    _, module = next(variants(lower(halves, x=tensor(2), w=tensor(1)), arrays, "sm_90"))
    lines = [line for line in print_module(module).splitlines() if "checked = [" in line]
    assert len(lines) == 4
    assert all(vector in line if vector else "vector" not in line for line in lines)
