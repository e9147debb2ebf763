"""`tiledsl profile`: how long each kernel takes, beside the least that it could, and what that limit is.

tiledsl profile examples/gemm.py:gemm --spec "f32[512,512]" --spec "f32[512,512]"
tiledsl profile model.onnx --size batch=2
tiledsl profile models.py:graph --size B=8 --device cuda
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tiledsl.api import Kernel
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.modules.module import Module
from tiledsl.cli.arguments import add_constants, add_json, add_sizes, add_specs, constants_of, sizes_of
from tiledsl.cli.as_json import show
from tiledsl.cli.bench_cases import arguments_of_saved, placed
from tiledsl.cli.draw import draw_for_specs
from tiledsl.cli.gpu_state import clocks, counters
from tiledsl.cli.load_model import TARGET, TorchModel, graph_arguments, graph_of_torch, load_target, torch_arguments
from tiledsl.cli.parser import seconds
from tiledsl.runtime.arrays.arrays import is_numpy
from tiledsl.support.errors import TileError, fail

if TYPE_CHECKING:
    from tiledsl.api.pages.profile import Profile


def add_profile_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser("profile", help="time each kernel of a model, beside the least that it could take")
    parser.add_argument("target", metavar="MODEL", help=f"{TARGET}; NAME is a kernel, a formula, a graph or a model")
    add_specs(parser)
    add_sizes(parser)
    add_constants(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where it runs")
    parser.add_argument("--seconds", type=seconds, default=2.0, help="how long it is timed; default: 2")
    parser.add_argument("--seed", type=int, default=0, help="of the arguments")
    add_json(parser)
    parser.set_defaults(run=_profile)


def _profile(options: argparse.Namespace) -> int:
    model = load_target(options.target)
    arch = "cpu" if options.device == "cpu" else device_arch()
    found = _found(model, options, arch)
    if arch != "cpu":
        found = replace(found, notes=(*found.notes, clocks(0), counters()))
    show(options, found, found.data())
    return 0


def _found(model: Kernel[Any] | Graph | Module | TorchModel, options: argparse.Namespace, arch: str) -> Profile:
    from tiledsl.api.graphs.profile_model import profile_graph, profile_module  # costs start-up time

    sizes, random = sizes_of(options), np.random.default_rng(options.seed)
    match model:
        case Kernel():
            return _of_kernel(model, options, arch)
        case Module():
            check_place(options.target, model.built.arch, options.device)
            return profile_module(model, arguments_of_saved(model, random), options.seconds)
        case TorchModel():
            from tiledsl.api.schedules.module_weights import host_array

            examples = torch_arguments(model, options.spec, sizes, random)
            given = [host_array(value, "an argument") for value in examples if hasattr(value, "data_ptr")]
            return profile_graph(graph_of_torch(model, examples), given, {}, arch, options.seconds, None)
        case Graph():
            return profile_graph(model, graph_arguments(model, sizes, random), sizes, arch, options.seconds, None)


def _of_kernel(kernel: Kernel[Any], options: argparse.Namespace, arch: str) -> Profile:
    from tiledsl.api.graphs.profile_model import profile_call, profile_graph
    from tiledsl.api.graphs.time_launches import device_clock, wall_clock  # costs start-up time

    drawn = draw_for_specs(options.spec, sizes_of(options), np.random.default_rng(options.seed))
    constants = constants_of(options)
    if kernel.is_tensor_form:
        formula: Any = kernel.compile(*drawn, arch="reference", **constants)
        given = [value for value in drawn if is_numpy(value)]
        return profile_graph(formula.graph, given, {}, arch, options.seconds, None)
    (audited,) = kernel.audit(*drawn, arch=arch, **constants).kernels
    stream = None if arch == "cpu" else _own_stream()
    call = kernel.bind(*placed(drawn, options.device), stream=stream, **constants)
    clock = wall_clock if arch == "cpu" else device_clock
    source = str(audited.kernel.location)
    return profile_call(kernel.__name__, source, call, audited.kernel, arch, options.seconds, clock)


def check_place(file: str, arch: str, device: str) -> None:
    """Raises TileTypeError for a saved module that is not for where it is to be timed."""
    if arch.startswith("sm_") != (device != "cpu"):
        fail("command-profile-place", None, file=file, arch=arch, device=device)


def device_arch() -> str:
    """What the GPU at hand is called. Raises TileRuntimeError where there is none."""
    from tiledsl.api.calls.targets import cuda_services  # costs start-up time

    try:
        return cuda_services().arch(0)
    except TileError as error:
        fail("command-profile-device", None, reason=error.message.splitlines()[0])


def _own_stream() -> int:
    from tiledsl.api.calls.targets import cuda_services

    return cuda_services().own_stream(0)
