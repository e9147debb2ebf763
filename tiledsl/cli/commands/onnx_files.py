"""`tiledsl run` and `tiledsl explain`, and `tiledsl compile` of a model: files in ONNX's format from the shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tiledsl
from tiledsl.cli.arguments import add_json
from tiledsl.cli.as_json import array_data, module_data, show
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.api.graphs.fused import BuiltGraph
    from tiledsl.api.graphs.graph import Graph


def add_run_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("run", help="run a model in ONNX's format on arrays")
    parser.add_argument("model", metavar="MODEL.onnx", help="a model in ONNX's format")
    parser.add_argument(
        "--input", action="append", default=[], metavar="[NAME=]FILE.npy", help="an input, in order or by name"
    )
    parser.add_argument("--output", metavar="FOLDER", help="where to write each output, as NAME.npy")
    add_json(parser)
    parser.set_defaults(run=_run)


def add_explain_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # see above
    parser = commands.add_parser("explain", help="what becomes of a model in ONNX's format: kernels, bytes, memory")
    parser.add_argument("model", metavar="MODEL.onnx", help="a model in ONNX's format")
    parser.add_argument("--html", nargs="?", const="", metavar="FILE", help="a page with a drawing; MODEL.html")
    add_model_options(parser)
    add_json(parser)
    parser.set_defaults(run=_explain)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """What a model is built for."""
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224", help="the shape of an input of a model"
    )
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=SIZE", help="a size that a model leaves open"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="the GPU that it will run on, such as 'NVIDIA H200': plans that were measured "
        "there are taken (default: the GPU at hand)",
    )  # fmt: skip
    if not any(action.dest == "arch" for action in parser._actions):  # pyright: ignore[reportPrivateUsage]  # see above
        parser.add_argument("--arch", default="cpu", help="cpu (the default), or a GPU's: sm_90 (no GPU is needed)")


def compile_model(options: argparse.Namespace) -> int:
    """`tiledsl compile MODEL.onnx`: the graph, the tile programs, or what was decided."""
    if options.emit not in ("graph", "tile", "explain"):
        known = "`graph`, `tile`, `explain`"
        fail("command-emit", None, arch=options.arch, emit=options.emit, known=known)
    graph = _graph(options)
    facts: dict[str, Any] = {"target": options.target, "arch": options.arch, "emit": options.emit}
    if options.emit == "graph":
        text = graph.ir()
    elif options.emit == "tile":
        text = tiledsl.fuse(graph).ir(options.arch, **_sizes(options))
    else:
        built = _built(graph, options)
        text, facts["module"] = built.explain(), module_data(built.modules[0])
    text = text.rstrip("\n")
    show(options, text, {**facts, "text": text})
    return 0


def _run(options: argparse.Namespace) -> int:
    _require_onnx()
    from tiledsl.importers.onnx.program import OnnxProgram  # it needs a package that may be absent
    from tiledsl.importers.onnx.read import read_model

    model = read_model(options.model)
    names = [value.name for value in model.graph.inputs]
    arrays = _arrays(options.input, names, options.model)
    _note(f"{options.model}: {len(model.graph.nodes)} nodes; compiling")
    outputs = OnnxProgram(model)(*(arrays[name] for name in names))
    folder = Path(options.output) if options.output else None
    data: list[dict[str, Any]] = []
    for info, output in zip(model.graph.outputs, outputs):
        file = None
        if folder is not None and hasattr(output, "dtype"):
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{Path(info.name).name}.npy"
            np.save(file, output)
        data.append({**array_data(info.name, output), "file": None if file is None else str(file)})
    lines = [f"{info.name}: {_described(output)}" for info, output in zip(model.graph.outputs, outputs)]
    show(options, "\n".join(lines), {"model": options.model, "outputs": data})
    return 0


def _explain(options: argparse.Namespace) -> int:
    built = _built(_graph(options), options)
    page = None if options.html is None else options.html or str(Path(options.model).with_suffix(".html"))
    text = built.explain(html=page)
    if page is not None:
        text += f"\nwritten to {page}"
    show(options, text, {**module_data(built.modules[0]), "page": page})
    return 0


def _graph(options: argparse.Namespace) -> Graph:
    _require_onnx()
    shapes: dict[str, Sequence[int | str]] = {}
    for text in options.shape:
        name, sizes = _pair(text, "--shape")
        shapes[name] = [int(size) if size.strip().isdigit() else size.strip() for size in sizes.split(",") if size]
    return tiledsl.from_onnx(options.model, shapes=shapes)


def _built(graph: Graph, options: argparse.Namespace) -> BuiltGraph:
    _note(f"{options.model}: {len(graph.module.entry.body.ops) - 1} ops; compiling for {options.arch}")
    fused = tiledsl.fuse(graph)
    sizes = _sizes(options)
    missing = [name for name in fused.symbols if name not in sizes]
    if missing:
        example = " ".join(f"--size {name}=8" for name in missing)
        fail("onnx-open-sizes", None, model=options.model, missing=", ".join(missing), example=example)
    return fused.build(options.arch, tuning=None, device=options.device, freeze=False, **sizes)


def _sizes(options: argparse.Namespace) -> dict[str, int]:
    pairs = [_pair(text, "--size") for text in options.size]
    for name, size in pairs:
        if not size.isdigit():
            fail("onnx-option", None, option="--size", text=f"{name}={size}")
    return {name: int(size) for name, size in pairs}


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        fail("onnx-option", None, option=option, text=text)
    return name, value


def _arrays(given: Sequence[str], names: Sequence[str], model: str) -> dict[str, Any]:
    """The input arrays by name. Raises TileError unless each input has one."""
    arrays: dict[str, Any] = {}
    rest = iter(names)
    for text in given:
        name, equals, file = text.partition("=")
        if not equals:
            name, file = next((n for n in rest if n not in arrays), ""), text
        if name not in names:
            known = ", ".join(names)
            if not name:
                fail("onnx-call", None, model=model, count=len(given), names=known)
            fail("onnx-no-input", None, model=model, name=name, names=known)
        try:
            arrays[name] = np.load(file, allow_pickle=False)
        except (OSError, ValueError) as error:
            fail("onnx-array", None, file=file, problem=str(error).splitlines()[0])
    if len(arrays) != len(names):
        fail("onnx-call", None, model=model, count=len(arrays), names=", ".join(names))
    return arrays


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        text = f"{value.dtype} {list(value.shape)}"
        if value.size and value.dtype.kind in "fiu":
            text += f", from {value.min():.6g} to {value.max():.6g}"
        return text
    return "nothing" if value is None else f"a sequence of {len(value)}"


def _note(text: str) -> None:
    """What takes time is said where somebody waits for it."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def _require_onnx() -> None:
    if find_spec("onnx") is None:
        fail("onnx-absent", None)
