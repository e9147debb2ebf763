"""`tiledsl check`: a kernel, run on random arguments with a shadow of the memory, which finds races; a model, compiled,
beside the reference executor, with the first launch that differs.

tiledsl check examples/softmax.py:softmax --spec "f32[M,100]" --size M=30
tiledsl check models.py:graph --size B=2
tiledsl check model.onnx --size batch=2
tiledsl check model.onnx --size batch=2 --arch sm_90        on the GPU at hand
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import numpy as np

from tiledsl.api import Kernel
from tiledsl.api.modules.module import Module
from tiledsl.cli.arguments import add_constants, add_json, add_sizes, add_specs, constants_of, sizes_of
from tiledsl.cli.as_json import check_data, model_data, show
from tiledsl.cli.draw import draw_for_specs
from tiledsl.cli.load_model import (
    TARGET,
    TorchModel,
    graph_arguments,
    graph_of_torch,
    load_target,
    need,
    torch_arguments,
)
from tiledsl.support.errors import fail


def add_check_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]  # argparse has no public name for it
    parser = commands.add_parser(
        "check",
        help="run a kernel on the CPU, and find races and reads of what nothing was stored to; or compare a model with "
        "the reference, launch by launch",
    )
    parser.add_argument("target", metavar="MODEL", help=f"{TARGET}; NAME is a kernel, a formula, a graph or a model")
    add_specs(parser)
    add_sizes(parser)
    add_constants(parser)
    parser.add_argument("--arch", default="cpu", help="of a model: what it is compiled for, cpu or the GPU at hand")
    parser.add_argument("--seed", type=int, default=0, help="of the arguments")
    add_json(parser)
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    model = load_target(options.target)
    sizes = sizes_of(options)
    random = np.random.default_rng(options.seed)
    if isinstance(model, Kernel):
        arguments = draw_for_specs(options.spec, sizes, random)
        constants = constants_of(options)
        if options.arch != "cpu":
            refuse_arch(options.arch)
        found: Any = model.check(*arguments, **constants)
        show(options, found, check_data(found))
        return 0 if found.ok else 1
    if isinstance(model, Module):
        refuse_saved(options.target)
    from tiledsl.api.graphs.check_model import beside, check_model  # costs start-up time

    if isinstance(model, TorchModel):
        examples = torch_arguments(model, options.spec, sizes, random)
        report = check_model(graph_of_torch(model, examples), _host(examples), {}, options.arch)
        framework = _flat(_without_gradients(model.module, examples))
        others = beside(report, _host(framework), "PyTorch")
    else:
        report, others = check_model(model, graph_arguments(model, sizes, random), sizes, options.arch), None
    reports = [report] if others is None else [report, others]
    show(options, "\n".join(map(str, reports)), [model_data(one) for one in reports])
    return 0 if report.ok and (others is None or others.ok) else 1


def refuse_arch(arch: str) -> NoReturn:
    """Raises the error for a kernel that is to be checked for a GPU."""
    fail("command-check-kernel", None, arch=arch)


def refuse_saved(file: str) -> NoReturn:
    """Raises the error for a module that has only its code."""
    fail("command-saved", None, file=file)


def _host(values: Sequence[Any]) -> list[Any]:
    """Tensors of PyTorch as arrays of NumPy; what is none is left out."""
    from tiledsl.api.schedules.module_weights import host_array

    return [host_array(value, "an argument") for value in values if hasattr(value, "data_ptr")]


def _without_gradients(module: Any, examples: Sequence[Any]) -> Any:
    with need("torch", "torch", "comparing with PyTorch").no_grad():
        return module(*examples)


def _flat(results: Any) -> list[Any]:
    """The tensors of nested results, in order."""
    if isinstance(results, dict):
        return [leaf for value in cast("dict[str, Any]", results).values() for leaf in _flat(value)]
    if isinstance(results, (tuple, list)):
        return [leaf for value in cast("list[Any]", results) for leaf in _flat(value)]
    return [results]
