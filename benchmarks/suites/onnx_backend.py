"""ONNX's own tests of back ends (in the package `onnx`), run with `tiledsl.importers.onnx.backend`.

python -m benchmarks.suites.onnx_backend                      # all parts
python -m benchmarks.suites.onnx_backend --part node --filter "conv|pool" --verbose

Parts: `node` (a test for each operator and use of it), `expanded` (the same for what operators are defined by),
`light` (whole networks with constant weights). Nodes are counted in classes:

| class | which |
| --- | --- |
| float | inference on tensors with a float among them; no class below |
| other | inference on integers and bools alone |
| narrow | with 8-bit or 4-bit floats, or integers of 4 or 2 bits |
| strings | with strings |
| training, classical | of the domains ai.onnx.preview.training and ai.onnx.ml |

A test is passed, refused (a TileUnsupportedError or TileTypeError: the model asks for what is not there)
or failed. Ends with 1 if a test failed that is not in `DIFFERENT`, or one was refused that is not in `REFUSED`.
"""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from tiledsl.importers.onnx import backend
from tiledsl.support.errors import TileTypeError, TileUnsupportedError

REFUSED = {
    r"test_(adagrad|adam|momentum|nesterov_momentum).*": "ai.onnx.preview.training: a trainer's steps are no inference",
    r"test_ai_onnx_ml_.*": "ai.onnx.ml: trees, encoders and the like are not for kernels",
    r"test_(string_|strnormalizer|regex_full_match|equal_string).*": "strings are not in kernels",
    r"test_image_decoder_.*": "files of images are decoded by the libraries for them",
}
"""The tests that are refused, by a pattern of their names, and why."""
DIFFERENT = {
    r"test_(bernoulli|training_dropout).*": "it asks for the random numbers of NumPy's generator",
    r"test_attention_4d(_causal)?_fp16(_expanded)?": "it asks for NumPy's roundings in f16, which are no nearer to f64",
    r"test_dft_inverse(_opset19)?": "its zeros are the rounding errors of NumPy's transform",
}
"""The tests whose results are others, and why."""


LIMIT, LIMIT_OF_MODELS = 90, 600
"""How long a test of a node may take, and one of a whole model, in seconds."""


@dataclass(frozen=True)
class Outcome:
    """How one test ended. `kind`: passed, refused, failed."""

    name: str
    group: str
    kind: str
    text: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts that are asked for, and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("node", "expanded", "light", "all"), default="all")
    parser.add_argument("--filter", default="", help="a regular expression that the names of tests have to match")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--arch", help="reference: op by op in NumPy, to look at the importer alone")
    parser.add_argument("--verbose", action="store_true", help="print the error of each test that did not pass")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    names = list(test_names(options.part, options.filter))
    outcomes: list[Outcome] = []
    with get_context("fork").Pool(options.processes) as pool:
        for outcome in pool.imap_unordered(partial(run_test, arch=options.arch), names, chunksize=4):
            outcomes.append(outcome)
            if sys.stderr.isatty():
                print(f"\r{len(outcomes)} of {len(names)}", end="", file=sys.stderr)
            elif outcome.kind != "passed" or len(outcomes) % 100 == 0:
                print(f"{len(outcomes)} of {len(names)}: {outcome.kind} {outcome.name}", file=sys.stderr, flush=True)
    outcomes.sort(key=lambda o: names.index(o.name))
    return report(outcomes, time.perf_counter() - start, options.verbose)


def test_names(part: str, pattern: str) -> Iterator[str]:
    """The names of the tests of a part."""
    if part != "light":
        for name in _nodes():
            expanded = "_expanded" in name
            if part in ("all", "expanded" if expanded else "node") and re.search(pattern, name):
                yield name
    if part in ("light", "all"):
        for path in sorted(_light().glob("*.onnx")):
            if re.search(pattern, path.stem):
                yield path.stem


_CASES: dict[str, Any] = {}


def _nodes() -> dict[str, Any]:
    """The tests of nodes by name; they are made anew by each process."""
    if not _CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _CASES.update({case.name: case for case in load_model_tests(kind="node")})
    return _CASES


def _light() -> Path:
    return Path(onnx.__file__).parent / "backend/test/data/light"


def group_of(name: str) -> str:
    """The class of a test."""
    if name.startswith("light_"):
        return "light"
    if "_expanded" in name:
        return "expanded"
    graph = _nodes()[name].model.graph
    domains = {node.domain for node in graph.node}
    kinds = {kind for value in (*graph.input, *graph.output) for kind in _kinds(value.type)}
    if "ai.onnx.preview.training" in domains:
        return "training"
    if "ai.onnx.ml" in domains:
        return "classical"
    if "STRING" in kinds:
        return "strings"
    if any(kind.startswith(("FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2")) and kind != "INT" for kind in kinds):
        return "narrow"
    return "float" if kinds & {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"} else "other"


def _kinds(type_: Any) -> Iterator[str]:
    """The element types of a value."""
    which = type_.WhichOneof("value")
    if which == "tensor_type":
        yield onnx.TensorProto.DataType.Name(type_.tensor_type.elem_type)
    elif which in ("sequence_type", "optional_type"):
        yield from _kinds(getattr(type_, which).elem_type)


def run_test(name: str, arch: str | None = None) -> Outcome:
    """Runs one test."""
    start = time.perf_counter()
    kind, text = "passed", ""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LIMIT_OF_MODELS if name.startswith("light_") else LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name.startswith("light_"):
                _run_light(name, arch)
            else:
                _run_node(_nodes()[name], arch)
    except (TileUnsupportedError, TileTypeError) as error:
        kind, text = "refused", str(error).strip()
    except Exception:
        kind, text = "failed", traceback.format_exc()
    finally:
        signal.alarm(0)
    return Outcome(name, group_of(name), kind, text, time.perf_counter() - start)


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError("the test takes longer than it may")


def _run_node(case: Any, arch: str | None) -> None:
    prepared = backend.prepare(case.model, arch=arch)
    for inputs, expected in case.data_sets:
        for found, wanted in zip(prepared.run([_array(x) for x in inputs]), expected, strict=True):
            _compare(found, _array(wanted), case.rtol, case.atol)


def _compare(found: Any, wanted: Any, rtol: float, atol: float) -> None:
    """Raises AssertionError for what ONNX's own runner would; that one does not take scalars in sequences."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        for part, other in zip(found, wanted, strict=True):
            _compare(part, other, rtol, atol)
    elif wanted is None:
        assert found is None
    else:
        Runner.assert_similar_outputs([wanted], [found], rtol, atol)


def _run_light(name: str, arch: str | None) -> None:
    """A network on the numbers from 0 to 1 that ONNX's own runner gives it."""
    path = _light() / f"{name}.onnx"
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(value) for value in model.graph.input if value.name not in weights]
    expected = [
        numpy_helper.to_array(onnx.load_tensor(str(_light() / f"{name}_output_{i}.pb")))
        for i in range(len(model.graph.output))
    ]
    Runner.assert_similar_outputs(expected, backend.prepare(model, arch=arch).run(inputs), 1e-3, 1e-7)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def report(outcomes: Sequence[Outcome], seconds: float, verbose: bool) -> int:
    """Prints a line for each class, and each test that did not pass."""
    counts = Counter((o.group, o.kind) for o in outcomes)
    print(f"{'class':10s} {'tests':>6s} {'passed':>7s} {'refused':>8s} {'failed':>7s}")
    for group in dict.fromkeys(o.group for o in outcomes):
        by_kind = [counts[group, kind] for kind in ("passed", "refused", "failed")]
        print(f"{group:10s} {sum(by_kind):6d} {by_kind[0]:7d} {by_kind[1]:8d} {by_kind[2]:7d}")
    print(f"{len(outcomes)} tests in {seconds:.0f} s; the slowest:")
    for outcome in sorted(outcomes, key=lambda o: -o.seconds)[:5]:
        print(f"  {outcome.seconds:6.1f} s  {outcome.name}")
    wrong = 0
    for outcome in outcomes:
        known = REFUSED if outcome.kind == "refused" else DIFFERENT
        reason = next((why for pattern, why in known.items() if re.fullmatch(pattern, outcome.name)), None)
        if outcome.kind == "passed":
            continue
        expected = reason is not None
        wrong += not expected
        lines = outcome.text.strip().splitlines()
        last = next((line for line in reversed(lines) if line and not line.startswith(" ")), "")
        print(
            f"{outcome.kind} {outcome.name}: {reason if expected else last if outcome.kind == 'failed' else lines[0]}"
        )
        if verbose and not expected:
            print("\n".join(f"    {line}" for line in lines))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
