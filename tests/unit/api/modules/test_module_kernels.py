"""`module.kernels`: the code, the IR, the resources and the plan of each kernel, on every target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tiledsl import tile
from tiledsl.support.errors import TileUnsupportedError


def formula(x: Any, w: Any) -> Any:
    y = tile.gelu(x @ w)
    return y, y.mT @ y


X, W = np.ones((32, 64), np.float32), np.ones((64, 32), np.float32)


def built(arch: str) -> Any:
    return tiledsl.fuse(tiledsl.trace(formula, X, W)).build(arch=arch)


@pytest.mark.parametrize(("arch", "text"), [("cpu", "define"), ("sm_80", "__global__"), ("sm_90", "__global__")])
def test_every_kernel_can_be_read(arch: str, text: str) -> None:
    module = built(arch)
    kernels = module.kernels
    assert [kernel.name for kernel in kernels.values()] == list(kernels)
    assert len(kernels) == len(module.modules[0].built.schedule.steps) >= 2
    for name, kernel in kernels.items():
        assert text in kernel.source
        assert f"func @{name}(" in kernel.ir()
        assert kernel.ir("tile", stage="front").startswith("func @")
        assert "m=" in kernel.plan
        assert kernel.resources
        assert repr(kernel) == f"<kernel {name} for {arch}: 1 launch>"
        if arch != "cpu":
            assert kernel.resources[name]["registers"] > 0
            assert "gpu." in kernel.ir("gpu")
            assert kernel.layouts
            assert all(str(found.layout) in kernel.ir("gpu") for found in kernel.layouts.values())


def test_the_reference_has_ir_alone() -> None:
    kernel = next(iter(built("reference").kernels.values()))
    assert "func @" in kernel.ir()
    assert kernel.plan == "run by NumPy, op by op"
    for text in ("source", "assembly", "resources"):
        with pytest.raises(TileUnsupportedError, match=f"for `reference` has no {text}"):
            getattr(kernel, text)


def test_levels_that_there_are_none_of() -> None:
    kernel = next(iter(built("cpu").kernels.values()))
    with pytest.raises(TileUnsupportedError, match="no IR of level `gpu`"):
        kernel.ir("gpu")
    with pytest.raises(TileUnsupportedError, match="no IR of level `tile, stage x`"):
        kernel.ir(stage="x")


def test_a_cpu_has_no_layouts() -> None:
    with pytest.raises(TileUnsupportedError, match="for `cpu` has no layouts") as caught:
        _ = next(iter(built("cpu").kernels.values())).layouts
    assert "sm_90" in str(caught.value)


def test_kernels_of_a_file(tmp_path: Path) -> None:
    module = built("cpu")
    module.save(str(tmp_path / "module"))
    kernels = tiledsl.load(tmp_path / "module").kernels
    assert {name: kernel.source for name, kernel in kernels.items()} == {
        name: kernel.source for name, kernel in module.kernels.items()
    }
    with pytest.raises(TileUnsupportedError, match="a file keeps no IR"):
        next(iter(kernels.values())).ir()


def test_launches_are_counted_and_code_for_other_sizes_has_a_name() -> None:
    def twice(x: Any, w: Any) -> Any:
        return x @ w, (x * 2) @ w, x[:7] @ w

    kernels = tiledsl.fuse(tiledsl.trace(twice, X, W)).build(arch="sm_90").kernels
    assert sum(kernel.launches for kernel in kernels.values()) >= 3
    assert len(kernels) == len({kernel.source for kernel in kernels.values()})


def test_compiled_formulas_have_kernels() -> None:
    compiled: Any = tile.kernel(formula).compile(X, W)
    assert list(compiled.kernels) == list(built("cpu").kernels)
