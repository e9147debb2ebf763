"""Golden texts of passes: `tests/golden/PASS/CASE.tir`.

A file names its pipeline, shows a module, and below the line `# expected` what becomes of it, with the remarks of the
passes as comments. `pytest --update-golden` writes the lower half anew; read the difference before committing it.
Both halves are executed too, and have to agree: to the bit, or as near as `# close: TOLERANCE` says. One that begins
with `# races: before` has no barriers or no proxy fences yet, which the executor has to notice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.generators.random_modules import random_array
from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.async_ops import NamedBarrier, ProxyFence, Role
from tiledsl.ir.gpu.gpu_ops import Barrier, Launch
from tiledsl.ir.gpu.gpu_rules import launch_around, role_around
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.symbolic import symbols_of
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.types import AxisType
from tiledsl.ir.verifier import Form
from tiledsl.passes.machine import MACHINES
from tiledsl.passes.manager import PassContext, PassManager, form_of
from tiledsl.passes.pipeline_text import parse_pipeline
from tiledsl.passes.registry import PASSES
from tiledsl.support.errors import TileError

Array: TypeAlias = npt.NDArray[Any]

ROOT = Path(__file__).parent
FILES = [file for file in sorted(ROOT.glob("*/*.tir")) if file.read_text(encoding="utf-8").startswith("# pipeline:")]
MARK = "\n# expected\n"
RACES = "no barrier between|missing proxy fence|initialisation it may come before"
SIZE = 16
"""The size of symbols for which the file gives none."""


def header(text: str, name: str) -> str:
    """What stands after `# name:` at the top of a file, or nothing."""
    lines = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(f"# {name}:")]
    return lines[0] if lines else ""


def transformed(text: str) -> str:
    """The module of `text` after its pipeline, and the remarks."""
    context = PassContext(MACHINES["avx2"])
    module = PassManager(parse_pipeline(header(text, "pipeline"))).run(parse_module(text), context)
    remarks = [f"# {r.pass_name}, line {r.location.line}: {r.text}\n" for r in context.remarks]
    return "".join(f"# {line}\n" for line in context.printed) + print_module(module) + "".join(remarks)


def arguments(module: Module, sizes: dict[str, int]) -> list[Argument]:
    """Arrays and numbers for the entry's parameters, always the same."""
    generator = np.random.default_rng(1)
    made: list[Argument] = []
    for parameter in module.entry.parameters:
        assert not isinstance(parameter.type, AxisType)
        known = {name: sizes.get(name, SIZE) for dim in parameter.type.shape for name in symbols_of(dim)}
        made.append(random_array(parameter.type.dtype, parameter.type.shape, known, generator))
    return made


def run(module: Module, given: list[Argument]) -> tuple[list[Array], list[str]]:
    """All arguments and results after a run, and the lines printed."""
    printed: list[str] = []
    match form_of(module):
        case Form.GPU:
            results = execute_gpu(module.entry, given, output=printed.append)
        case Form.GRAPH:
            results = execute_graph(module.entry, given, module, output=printed.append)
        case _:
            results = execute(module.entry, given, output=printed.append)
    return [np.asarray(array) for array in (*given, *results)], printed


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_golden(file: Path, update_golden: bool) -> None:
    before, _, expected = file.read_text(encoding="utf-8").partition(MARK)
    actual = transformed(before)
    if update_golden:
        file.write_text(before.rstrip("\n") + "\n" + MARK + actual, encoding="utf-8")
    else:
        assert actual == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_both_halves_compute_the_same(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    before, _, after = text.partition(MARK)
    sizes = {name: int(size) for name, size in (pair.split("=") for pair in header(text, "sizes").split())}
    source, result = parse_module(before), parse_module(after)
    if header(text, "races") == "before":
        with pytest.raises(TileError, match=RACES):
            run(source, arguments(source, sizes))
        source = with_barriers(source)
    tolerance = header(text, "close")
    arrays, printed = run(result, arguments(source, sizes))
    wanted, to_print = run(source, arguments(source, sizes))
    assert printed == to_print
    assert len(arrays) == len(wanted)
    for got, want in zip(arrays, wanted):
        if tolerance:
            assert_close(got, want, relative=float(tolerance))
        else:
            assert got.tobytes() == want.tobytes()


def with_barriers(module: Module) -> Module:
    """The module with a proxy fence and a barrier before every op about memory."""
    for op in list(module.walk()):
        if not op.name.startswith("gpu.") or op.parent is None or isinstance(op, Launch):
            continue
        role = role_around(op)
        if isinstance(op, Role) and any(isinstance(other, Role) for other in op.parent.ops[: op.parent.ops.index(op)]):
            continue  # after a role only roles may follow
        op.parent.insert_before(op, ProxyFence(op.location, scope="global"))
        launch = launch_around(op)
        barrier = Barrier(op.location, scope="cluster" if launch is not None and launch.cluster > 1 else "block")
        if role is not None:  # it has a barrier of its own, by the number of its first warp
            barrier = NamedBarrier(op.location, id=1 + role.first // WARP, threads=role.threads)
        op.parent.insert_before(op, barrier)
    return module


def test_every_pass_has_a_golden() -> None:
    named = {
        step.name for file in FILES for step in parse_pipeline(header(file.read_text(encoding="utf-8"), "pipeline"))
    }
    assert named == set(PASSES)
