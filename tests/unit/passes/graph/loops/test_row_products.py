"""Steps that multiply what is carried, in one kernel with their weights: where that is, and that it is right."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, normal
from tiledsl import ops, tile

LAYERS: dict[str, tuple[Any, int]] = {"rnn": (ops.rnn, 1), "lstm": (ops.lstm, 4), "gru": (ops.gru, 3)}


def specs(gates: int, width: int, rows: int, dtype: Any) -> list[Any]:
    shapes = [(64, rows, 16), (gates * width, 16), (gates * width, width), (gates * width,), (gates * width,)]
    return [tile.spec(shape, dtype) for shape in shapes]


def is_launched(name: str, width: int, arch: str = "sm_90", dtype: Any = tile.f16) -> bool:
    layer, gates = LAYERS[name]
    graph = tiledsl.trace(lambda *given: layer(*given), *specs(gates, width, 64, dtype))
    return "graph.loop(" in tiledsl.fuse(graph).ir(arch)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_whose_weights_have_room_are_one_kernel(name: str) -> None:
    assert not is_launched(name, 64)
    assert is_launched(name, 512)
    assert is_launched(name, 64, dtype=tile.f32)
    assert is_launched(name, 64, arch="cpu")


def test_it_compiles_with_the_weights_in_front_of_the_loop() -> None:
    graph = tiledsl.trace(lambda *given: ops.lstm(*given), *specs(4, 64, 64, tile.bf16))
    for arch in ("sm_80", "sm_90"):
        kernels = tiledsl.fuse(graph).build(arch).kernels
        (looped,) = [kernel for name, kernel in kernels.items() if "_loop" in name]
        before, loop = looped.ir("gpu").split("tile.for", 1)
        assert "gpu.mma(" in loop
        assert before.count("gpu.copy(") + before.count("gpu.tma_load(") >= 4
        assert "gpu.copy(" not in loop


@pytest.mark.parametrize(("name", "options"), [
    ("rnn", {}), ("lstm", {"reverse": True}), ("gru", {"reset_after": False}),
    ("gru", {"lengths": np.array([3, 1, 2, 0, 3] * 4)}),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_in_the_emulator(name: str, options: Any) -> None:
    """Twenty rows: a tile, and a part of one."""
    layer, gates = LAYERS[name]
    shapes = [(3, 20, 16), (gates * 64, 16), (gates * 64, 64), (gates * 64,), (gates * 64,)]
    arrays = [normal(*shape, dtype=F16, scale=0.2) for shape in shapes]
    graph = tiledsl.trace(lambda *given: layer(*given, **options), *arrays)
    assert "graph.loop(" not in tiledsl.fuse(graph).ir("sm_90")
    kernel = tile.kernel(lambda x, w, u, b, c: layer(x, w, u, b, c, **options))
    for result, wanted in zip(kernel.emulate(*arrays, arch="sm_90"), layer(*arrays, **options)):
        assert_close(result, wanted)
