"""The order of passes, the forms between them, dumps and remarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from tests.support.gpu_code.every_gpu_op import GPU
from tests.support.tile_programs import GEMM, SOFTMAX
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Store
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import Pass, PassContext, PassManager, form_of, stronger
from tiledsl.passes.tile.canonicalise import Canonicalise
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.infer_tiling import InferTiling
from tiledsl.passes.tile.place_levels import PlaceLevels
from tiledsl.support.errors import TileError


@dataclass(frozen=True)
class DropYields:
    """A pass with a bug: it makes illegal modules."""

    name: ClassVar[str] = "drop-yields"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for op in module.walk():
            if isinstance(op, Store):
                op.fields["value"] = module.entry.parameters[0]
        context.remark(self.name, module.entry.location, "stored the wrong thing")
        return module


def test_dumps_come_in_order() -> None:
    steps: list[tuple[str, Form]] = []
    manager = PassManager(
        [Canonicalise(), PlaceLevels(), InferTiling(arch="avx2"), EliminateDeadCode()],
        dump=lambda name, module: steps.append((name, form_of(module))),
    )
    manager.run(parse_module(GEMM))
    assert steps == [
        ("input", Form.TILE),
        ("canonicalise", Form.TILE),
        ("place-levels", Form.TILE_PLACED),
        ("infer-tiling", Form.TILE_TILED),
        ("dce", Form.TILE_TILED),
    ]


def test_a_form_is_kept_by_later_runs() -> None:
    placed = PassManager([PlaceLevels()]).run(parse_module(SOFTMAX))
    tiled = PassManager([InferTiling(arch="avx2")]).run(placed)
    assert form_of(tiled) is Form.TILE_TILED


def test_the_given_module_stays() -> None:
    module = parse_module(GEMM)
    text = print_module(module)
    PassManager([PlaceLevels()]).run(module)
    assert print_module(module) == text


def test_the_order_is_checked_before_anything_runs() -> None:
    context = PassContext()
    with pytest.raises(TileError) as caught:
        PassManager([DropYields(), InferTiling()]).run(parse_module(GEMM), context)
    assert caught.value.code == "pass-form"
    assert context.remarks == []


def test_an_illegal_module_is_the_users_error() -> None:
    module = parse_module(GEMM)
    module.entry.body.ops.pop()
    with pytest.raises(TileError) as caught:
        PassManager([]).run(module)
    assert caught.value.code == "ir-invalid"


@pytest.mark.parametrize("between", [True, False])
@pytest.mark.parametrize("others", [[], [PlaceLevels()], [PlaceLevels(), InferTiling()]])
def test_a_pass_that_breaks_the_module_is_named(others: list[Pass], between: bool) -> None:
    with pytest.raises(AssertionError, match="drop-yields made an illegal module"):
        PassManager([DropYields(), *others], between=between).run(parse_module(GEMM))


def test_without_verification_nothing_is_checked() -> None:
    context = PassContext()
    PassManager([DropYields()], verify=False).run(parse_module(GEMM), context)
    assert [str(remark) for remark in context.remarks] == ["<text>:2:6: drop-yields: stored the wrong thing"]


def test_the_order_of_forms() -> None:
    assert stronger(Form.TILE, Form.TILE_TILED) is Form.TILE_TILED
    assert stronger(Form.TILE_TILED, Form.TILE_PLACED) is Form.TILE_TILED


@dataclass(frozen=True)
class Lower:
    """Stands for the lowering: gives one GPU module, whatever it is given."""

    name: ClassVar[str] = "lower"
    requires: ClassVar[Form] = Form.TILE_TILED
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        return parse_module(GPU)


@dataclass(frozen=True)
class KeepGpu:
    """A pass on GPU IR that does nothing."""

    name: ClassVar[str] = "keep-gpu"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        return module


def test_gpu_form_comes_after_all_tile_forms() -> None:
    passes = [PlaceLevels(), InferTiling(arch="avx2"), Lower(), KeepGpu()]
    lowered = PassManager(passes).run(parse_module(GEMM))
    assert form_of(lowered) is Form.GPU
    assert PassManager([KeepGpu()]).run(lowered) == lowered


def test_a_gpu_module_is_no_tile_module() -> None:
    with pytest.raises(TileError) as caught:
        PassManager([Canonicalise()]).run(parse_module(GPU))
    assert caught.value.message == "the pass `canonicalise` needs the form `tile`, but finds `gpu`"
    with pytest.raises(TileError) as caught:
        PassManager([PlaceLevels(), KeepGpu()]).run(parse_module(GEMM))
    assert caught.value.message == "the pass `keep-gpu` needs the form `gpu`, but finds `tile-placed`"
