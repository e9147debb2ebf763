"""`torch.compile(model, backend="tiledsl")`."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tiledsl.importers.torch.compile_graph import CompiledGraph, warn_of_fallbacks
from tiledsl.importers.torch.register import WHOLE_IN_EXPORTS
from tiledsl.importers.torch.run_nodes import formula_of, key_of

_NUMBERS = itertools.count()
COMPILED: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()


def backend(module: Any, example: Sequence[Any], *, mode: Any = None, options: Mapping[str, Any] | None = None) -> Any:
    """What `torch.compile(model, backend="tiledsl")` calls; also `backend=tiledsl.torch.backend`.

    Operators that have no formula are run by PyTorch, each for itself, and named once in a warning and in
    `tiledsl.torch.explain()`. With `fullgraph=True`, or `options={"fallback": False}`, they are errors:
    TileUnsupportedError. A model that is trained is compiled forward and backward.
    """
    allowed = bool((options or {}).get("fallback", not _wants_full_graph()))

    def compile_one(graph: Any, inputs: Sequence[Any], **_: Any) -> Any:
        compiled = CompiledGraph(graph, inputs, f"model_{next(_NUMBERS)}")
        if not allowed:
            compiled.refuse_fallbacks()
        warn_of_fallbacks(compiled)
        COMPILED.add(compiled)

        def call(given: list[Any]) -> list[Any]:
            values = list(given)
            given.clear()  # as PyTorch asks for: what is read no more can be freed
            return compiled(*values)

        call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess] - where PyTorch looks for it
        return call

    common = torch._dynamo.backends.common
    return common.aot_autograd(fw_compiler=compile_one, bw_compiler=compile_one, decompositions=decompositions())(
        module, example
    )


def explain() -> str:
    """What became of the models that were compiled and still are: stages, kernels, what PyTorch runs and why."""
    return "\n\n".join(graph.explain() for graph in sorted(COMPILED, key=lambda g: g.name))


def decompositions() -> dict[Any, Any]:
    """PyTorch's table of how operators are made of others, less those that have a formula."""
    table: dict[Any, Any] = torch._decomp.core_aten_decompositions()
    return {
        operator: how
        for operator, how in table.items()
        if formula_of(operator) is None or key_of(operator) in WHOLE_IN_EXPORTS
    }


def _wants_full_graph() -> bool:
    """Whether `fullgraph=True` was said, as far as PyTorch tells."""
    convert = torch._dynamo.symbolic_convert
    try:
        return bool(convert.InstructionTranslator.current_tx().one_graph)
    except (AttributeError, RuntimeError):
        return False
