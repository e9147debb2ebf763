"""`tiledsl compile`: a kernel of a Python file, compiled for given arguments, as text of the level asked for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from typing_extensions import assert_never

from tiledsl.api import CompiledKernel
from tiledsl.cli.arguments import add_constants, add_json, add_specs, constants_of, parse_spec
from tiledsl.cli.as_json import show
from tiledsl.cli.commands.onnx_files import add_model_options, compile_model
from tiledsl.cli.python_files import load_kernel, split_target
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.api.kernels.tensor_form import CompiledFormula

Emit: TypeAlias = Literal["graph", "front", "tile", "llvm", "asm", "gpu", "cuda", "sass", "resources", "explain"]
EMITS: tuple[Emit, ...] = ("graph", "front", "tile", "llvm", "asm", "gpu", "cuda", "sass", "resources", "explain")
_OF_CPU: tuple[Emit, ...] = ("front", "tile", "llvm", "asm", "resources", "explain")
_OF_GPU: tuple[Emit, ...] = ("front", "tile", "gpu", "cuda", "sass", "resources", "explain")
_OF_REFERENCE: tuple[Emit, ...] = ("front", "tile", "explain")
_OF_FORMULAS: tuple[Emit, ...] = ("graph", "tile", "explain")


def add_compile_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("compile", help="compile a kernel and print what becomes of it")
    parser.add_argument(
        "target", metavar="FILE.py:KERNEL", help="or MODEL.onnx, of which there is graph, tile, explain"
    )
    unknown = "one argument, in order: f32[M,K] (sizes are numbers, names, or ? where unknown), int, float or bool"
    add_specs(parser, unknown)
    add_constants(parser)
    parser.add_argument(
        "--arch", default="cpu", help="cpu (the default), reference, or a GPU's: sm_90 (no GPU is needed)"
    )
    parser.add_argument(
        "--emit", choices=EMITS, default="tile", metavar="WHAT",
        help="graph: a formula as it was traced; front: IR as the front end gave it; tile: IR as the back end got it; "
        "llvm, asm: what a CPU gets; "
        "gpu: GPU IR; cuda: CUDA C; sass: a GPU's machine code, by nvdisasm; "
        "resources: registers and memory; explain: what was chosen, and why",
    )  # fmt: skip
    add_model_options(parser)
    add_json(parser)
    parser.set_defaults(run=_compile)


def _compile(options: argparse.Namespace) -> int:
    if str(options.target).endswith(".onnx"):
        options.model = options.target
        return compile_model(options)
    file, name = split_target(options.target)
    kernel = load_kernel(file, name)
    specs = [parse_spec(text) for text in cast("list[str]", options.spec)]
    constants = constants_of(options)
    compiled = kernel.compile(*specs, arch=options.arch, **constants)
    text = emitted(compiled, options.emit).rstrip("\n")
    facts: dict[str, Any] = {"target": options.target, "arch": compiled.arch, "emit": options.emit, "text": text}
    if options.emit == "resources":
        facts["resources"] = compiled.resources
    show(options, text, facts)
    return 0


def emitted(compiled: CompiledKernel | CompiledFormula, emit: Emit) -> str:
    """One of the texts of a compiled kernel. Raises TileUnsupportedError for one that there is none of."""
    known = emits_of(compiled.arch) if isinstance(compiled, CompiledKernel) else _OF_FORMULAS
    if emit not in known:
        fail("command-emit", None, arch=compiled.arch, emit=emit, known=", ".join(f"`{one}`" for one in known))
    if not isinstance(compiled, CompiledKernel):
        return compiled.explain() if emit == "explain" else compiled.ir(emit)
    match emit:
        case "graph":
            return compiled.ir("graph")
        case "front":
            return compiled.ir("tile", stage="front")
        case "tile":
            return compiled.ir("tile")
        case "llvm" | "cuda":
            return compiled.source
        case "asm" | "sass":
            return compiled.assembly
        case "gpu":
            return compiled.ir("gpu")
        case "resources":
            return resource_lines(compiled.resources)
        case "explain":
            return compiled.explain()
        case _:
            assert_never(emit)


def emits_of(arch: str) -> tuple[Emit, ...]:
    """The texts that there are for an architecture."""
    return _OF_CPU if arch == "cpu" else _OF_REFERENCE if arch == "reference" else _OF_GPU


def resource_lines(resources: Mapping[str, object]) -> str:
    """`softmax: registers = 48, spills = 0 ...`, a line for each CUDA function; or `code = 4096` for a CPU."""
    lines: list[str] = []
    for name, value in resources.items():
        if isinstance(value, Mapping):
            counted = cast("Mapping[str, int]", value)
            lines.append(f"{name}: " + ", ".join(f"{what} = {count}" for what, count in counted.items()))
        else:
            lines.append(f"{name} = {value}")
    return "\n".join(lines)
