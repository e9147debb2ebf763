"""PyTorch's own lists of operators and modules (OpInfo, `module_db`), through the package: a table of what is right.

    python -m tests.suites.torch_opinfo [--samples 3] [--only softmax] [--modules] [--gradients] [--save table.txt]

Each sample (f32, static shapes) is written down as ATen operators, and run as `torch.compile` would run it: what has a
formula compiled, the rest by PyTorch. `--gradients` does so with the gradients of a weighted sum of its results. Those
count whose operators are core ATen, or have a formula. Needs `expecttest`.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from tiledsl.importers.torch.backend import decompositions
from tiledsl.importers.torch.compile_graph import CompiledGraph
from tiledsl.importers.torch.run_nodes import formula_of

TOLERANCES = {"rtol": 1e-4, "atol": 1e-5}
LIMIT = 120
"""Seconds that one sample may take."""
KINDS = ("right", "fallback", "wrong", "failed", "outside")
"""`right`: without a fallback. `fallback`: right, with operators that PyTorch ran. `outside`: an operator is not core
ATen and has no formula, or sizes depend on data, or elements are complex."""


@dataclass
class Outcome:
    """What became of one sample."""

    name: str
    kind: str
    detail: str = ""
    seconds: float = 0.0


class TimeoutExpiredError(Exception):
    """A sample took too long."""


def run_sample(name: str, fn: Callable[..., Any], arguments: Any, *, gradients: bool = False) -> Outcome:
    """Runs a function of tensors in nested arguments both ways, or its gradients, and compares."""
    leaves, structure = torch.utils._pytree.tree_flatten(arguments)
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if any(leaves[i].is_complex() or leaves[i].layout != torch.strided for i in at):
        return Outcome(name, "outside", "complex or sparse elements")

    def flat(*tensors: Any) -> list[Any]:
        given = list(leaves)
        for i, tensor in zip(at, tensors):
            given[i] = tensor
        results = torch.utils._pytree.tree_leaves(fn(*torch.utils._pytree.tree_unflatten(given, structure)))
        return [r for r in results if isinstance(r, torch.Tensor)]

    called = _gradients_of(flat) if gradients else flat
    tensors = [leaves[i].detach().clone() for i in at]
    with torch.no_grad():
        torch.manual_seed(0)
        expected = called(*[tensor.clone() for tensor in tensors])
        try:
            traced = import_module("torch.fx.experimental.proxy_tensor").make_fx(
                torch.func.functionalize(called), decomposition_table=decompositions(), tracing_mode="fake"
            )(*[tensor.clone() for tensor in tensors])
        except Exception as error:
            return Outcome(name, "outside", f"no graph: {type(error).__name__} {str(error)[:80]}")
        if not expected or any(r.is_complex() or r.layout != torch.strided for r in expected):
            return Outcome(name, "outside", "complex or no results")
        if any(_is_open(node) for node in traced.graph.nodes):
            return Outcome(name, "outside", "sizes depend on data, or elements are complex")
        unknown = [str(node.target) for node in traced.graph.nodes if _is_outside(node)]
        torch.manual_seed(0)
        try:
            compiled = CompiledGraph(traced, tensors, "sample")
            actual = compiled(*tensors)
        except TimeoutExpiredError:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines()
            return Outcome(name, "failed", f"{type(error).__name__}: {lines[0] if lines else ''}")
        if any(_is_random(node) for node in traced.graph.nodes):  # other numbers than eager, in PyTorch's own terms
            actual = [torch.empty_like(one) for one in actual]
            expected = [torch.empty_like(one) for one in expected]
            actual, expected = ([one.zero_() for one in many] for many in (actual, expected))
        try:
            torch.testing.assert_close(actual, expected, equal_nan=True, **TOLERANCES)
        except AssertionError as error:
            if _as_exact(called, tensors, actual, expected):
                return Outcome(name, "right", "as far from f64 as eager PyTorch")
            fallen = ", ".join(str(node.target) for node in compiled.fallbacks)
            return Outcome(name, "wrong", " ".join(str(error).split())[:300] + (f" [{fallen}]" if fallen else ""))
    if unknown:
        return Outcome(name, "outside", ", ".join(unknown))
    reasons = [f"{node.target}: {reason}" for node, reason in compiled.fallbacks.items()]
    return Outcome(name, "fallback" if reasons else "right", "; ".join(reasons))


def _gradients_of(flat: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The gradients of a weighted sum of all results in floats, by each tensor of floats."""

    def gradients(*tensors: Any) -> list[Any]:
        at = [i for i, tensor in enumerate(tensors) if tensor.is_floating_point()]

        def of_floats(*floats: Any) -> tuple[Any, ...]:
            given = list(tensors)
            for i, tensor in zip(at, floats):
                given[i] = tensor
            return tuple(result for result in flat(*given) if result.is_floating_point())

        results, pull = torch.func.vjp(of_floats, *(tensors[i] for i in at))
        weights = [torch.arange(r.numel(), dtype=r.dtype).reshape(r.shape).cos() for r in results]
        return list(pull(tuple(weights)))

    return gradients


def _as_exact(called: Callable[..., list[Any]], tensors: list[Any], actual: list[Any], expected: list[Any]) -> bool:
    """Whether results are about as near to those in f64 as PyTorch's are: where digits cancel, neither has more."""
    try:
        exact = called(*[t.double() if t.is_floating_point() else t.clone() for t in tensors])
    except Exception:
        return False
    pairs = list(zip(actual, expected, exact, strict=True))
    ours = [float((mine - true).abs().max()) for mine, _, true in pairs]
    theirs = [float((their - true).abs().max()) for _, their, true in pairs]
    return all(mine <= 2 * their for mine, their in zip(ours, theirs))


def _is_open(node: Any) -> bool:
    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return any(t.is_complex() or not all(isinstance(size, int) for size in t.shape) for t in tensors)


def _is_random(node: Any) -> bool:
    """Whether a node gives numbers that nobody can tell: random ones, or what memory holds."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.nondeterministic_seeded in target.tags or "empty" in target._opname


def _is_outside(node: Any) -> bool:
    """Whether a node's operator is not core ATen, and has no formula."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    return formula_of(target) is None and torch.Tag.core not in target.tags


def operators(only: str) -> Iterator[tuple[str, Callable[[], Iterator[tuple[Callable[..., Any], Any]]]]]:
    """The operators by name, each with a function that lists its samples."""
    infos: Any = import_module("torch.testing._internal.common_methods_invocations").op_db
    for info in infos:
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        if torch.float32 in info.dtypes and re.search(only, name):
            yield name, lambda info=info: _samples(info)


def _samples(info: Any) -> Iterator[tuple[Callable[..., Any], Any]]:
    for sample in info.sample_inputs("cpu", torch.float32):

        def call(first: Any, args: Any, kwargs: Any) -> Any:
            return info.op(first, *args, **kwargs)

        yield call, (sample.input, sample.args, sample.kwargs)


def modules(only: str) -> Iterator[tuple[str, Callable[[], Iterator[tuple[Callable[..., Any], Any]]]]]:
    """The modules, in evaluation."""
    infos: Any = import_module("torch.testing._internal.common_modules").module_db
    for info in infos:
        if torch.float32 in info.dtypes and re.search(only, info.name):
            yield info.name, lambda info=info: _module_samples(info)


def _module_samples(info: Any) -> Iterator[tuple[Callable[..., Any], Any]]:
    given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    for sample in given:
        made = sample.constructor_input
        if sample.forward_input is None:
            continue
        model = info.module_cls(*made.args, **made.kwargs).eval()

        def call(state: Any, args: Any, kwargs: Any, model: Any = model) -> Any:
            return torch.func.functional_call(model, state, tuple(args), kwargs)

        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        yield call, (state, sample.forward_input.args, sample.forward_input.kwargs)


def chosen(samples: Sequence[Any], count: int) -> list[Any]:
    """So many of the samples, from the first to the last."""
    if len(samples) <= count:
        return list(samples)
    return [samples[i * (len(samples) - 1) // max(count - 1, 1)] for i in range(count)]


def _expired(number: int, frame: FrameType | None) -> None:
    raise TimeoutExpiredError


def run_all(listed: Iterator[Any], count: int, log: Path | None = None, *, gradients: bool = False) -> list[Outcome]:
    """The outcomes of some samples of each operator or module."""
    outcomes: list[Outcome] = []
    signal.signal(signal.SIGALRM, _expired)
    for name, list_samples in listed:
        try:
            samples = chosen(list(list_samples()), count)
        except Exception as error:
            outcomes.append(Outcome(name, "outside", f"no samples: {type(error).__name__}"))
            continue
        for i, (call, arguments) in enumerate(samples):
            start = time.perf_counter()
            signal.alarm(LIMIT)
            try:
                outcome = run_sample(f"{name} {i}", call, arguments, gradients=gradients)
            except TimeoutExpiredError:
                outcome = Outcome(f"{name} {i}", "failed", f"took more than {LIMIT} s")
            except Exception as error:
                outcome = Outcome(f"{name} {i}", "outside", f"PyTorch raises {type(error).__name__}")
            finally:
                signal.alarm(0)
            outcome.seconds = time.perf_counter() - start
            outcomes.append(outcome)
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """Counts by kind, and each sample that is not right with its reason."""
    counts = Counter(outcome.kind for outcome in outcomes)
    inside = sum(counts[kind] for kind in KINDS if kind != "outside")
    lines = [f"{kind:10} {counts[kind]:5}" for kind in KINDS]
    if inside:
        right, with_fallback = counts["right"], counts["right"] + counts["fallback"]
        lines.append(
            f"right without fallback {right / inside:.1%}, with fallback {with_fallback / inside:.1%} of {inside}"
        )
    lines += [f"{o.kind:8} {o.name}: {o.detail}" for o in outcomes if o.kind not in ("right", "outside")]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Runs the suite and prints the table; 0 if nothing is wrong or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3, help="of each operator")
    parser.add_argument("--only", default="", help="operators in whose names this regular expression is found")
    parser.add_argument("--modules", action="store_true", help="modules in place of operators")
    parser.add_argument("--gradients", action="store_true", help="of the samples, in place of their results")
    parser.add_argument("--part", default="0/1", help="every nth operator, beginning with the ith: i/n")
    parser.add_argument("--save", type=Path, help="a file for the table")
    parser.add_argument("--log", type=Path, help="a file for each outcome, as JSON in lines")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    first, step = map(int, options.part.split("/"))
    listed = list((modules if options.modules else operators)(options.only))[first::step]
    outcomes = run_all(iter(listed), options.samples, options.log, gradients=options.gradients)
    text = table(outcomes)
    print(text)
    if options.save:
        options.save.write_text(text + "\n", encoding="utf-8")
    return int(any(outcome.kind in ("wrong", "failed") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
