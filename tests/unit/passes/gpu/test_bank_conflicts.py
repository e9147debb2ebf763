"""No bank conflicts in what is lowered: counted from the layouts, for every access of shared memory of a product."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.gpu_code.gpu_lowering import lowered, plans_for
from tests.support.tile_programs import GEMM
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.shared_layouts import Access, Method, is_conflict_free
from tiledsl.ir.text.parser import parse_module


def accesses(module: Module) -> list[tuple[str, Access, gpu_ops.Buffer]]:
    """Every access of a buffer by a tile, by what op it is made."""
    found: list[tuple[str, Access, gpu_ops.Buffer]] = []
    for op in module.walk():
        if not isinstance(op, (gpu_ops.Read, gpu_ops.Write, gpu_ops.Copy)):
            continue
        layout = op.value.layout if isinstance(op, gpu_ops.Write) else op.layout
        buffer = op.buffer.op
        assert isinstance(buffer, gpu_ops.Buffer)
        assert isinstance(layout, RegisterLayout)
        method: Method = "copy" if isinstance(op, gpu_ops.Copy) else op.method  # pyright: ignore[reportAssignmentType]
        found.append((op.name, Access(layout, op.places, method, op.vector), buffer))
    return found


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64"])
@pytest.mark.parametrize("size", [64, 512, 4096])
def test_products_have_no_conflicts(dtype: str, size: int) -> None:
    text = GEMM.replace("f32", dtype) if dtype == "f64" else re.sub(r"(%[ab]: tensor)<f32", rf"\1<{dtype}", GEMM)
    module = parse_module(text)
    arguments = [np.zeros((size, size), to_numpy(BY_NAME[dtype]))] * 2
    placed, plans = plans_for(module, arguments)
    for plan in [plan for plan in plans if not plan.grids[0].roles][:3]:
        found = accesses(lowered(placed, plan))
        assert {"gpu.read", "gpu.copy"} <= {name for name, _, _ in found}
        for name, access, buffer in found:
            layout = buffer.layout
            assert isinstance(layout, SharedLayout)
            free = is_conflict_free(access, layout, buffer.shape, buffer.dtype)
            assert free, f"{plan}: {name} of {buffer.result} by {access}"
