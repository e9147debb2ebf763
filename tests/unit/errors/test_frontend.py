"""One case for each message of `support/catalogue/frontend.py`."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl import tile
from tiledsl.frontend.kernel.arguments import ConstantArgument, ScalarArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir import dtypes
from tiledsl.support.catalogue.frontend import ENTRIES
from tiledsl.support.errors import TileError

ARGUMENTS = {
    "x": tensor(2), "y": tensor(2), "w": tensor(1), "h": tensor(2, dtypes.f16), "i": tensor(1, dtypes.i32),
    "s": ScalarArgument("int"), "f": ScalarArgument("float"), "c": ConstantArgument(4),
}  # fmt: skip


def kernel(text: str, **names: object) -> Callable[[], object]:
    """Lowers the last function of the text. Parameters called as in ARGUMENTS are of that kind."""

    def provoke() -> object:
        function = kernel_from_text(text, **names)
        given = {name: ARGUMENTS[name] for name in KernelSource(function).signature.parameters}
        return lower(function, **given)

    return provoke


def body(text: str, **names: object) -> Callable[[], object]:
    """Lowers a kernel with these statements in its grid, where `x[m, n]` is a block and `out` takes one."""
    head = """\
        def kernel(x, y, w, h, i, s, f, c):
            M, N = x.shape
            out = tile.empty((M, N), tile.f32)
            for m, n in tile.grid(M, N):
    """
    lines = textwrap.indent(textwrap.dedent(text).strip("\n"), " " * 8)
    return kernel(f"{textwrap.dedent(head)}{lines}\n    return out\n", **names)


def top(text: str, **names: object) -> Callable[[], object]:
    """Lowers a kernel with these statements before its grid, which does nothing."""
    lines = textwrap.indent(textwrap.dedent(text).strip("\n"), " " * 4)
    loop = "    for r in tile.grid(x.shape[0]):\n        pass\n"
    return kernel(f"def kernel(x, y, w, h, i, s, f, c):\n{lines}\n{loop}", **names)


def unreadable() -> object:
    scope: dict[str, Any] = {}
    exec(compile("def lost(x): pass", "<nowhere>", "exec"), scope)
    return lower(scope["lost"], x=1)


def later_python() -> object:
    """A construct that the Python of these tests does not have."""

    class Later(ast.stmt):
        pass

    source = KernelSource(kernel_from_text("def f(x):\n    for m in tile.grid(3): pass"))
    source.tree.body.append(ast.copy_location(Later(), source.tree.body[0]))
    return lower_kernel(source, {"x": tensor(1)})


HELPER = """\
    @tile.func
    def helper({parameters}):
        {statements}

    def kernel(x, s):
        for m in tile.grid(x.shape[0]):
            helper({arguments})
"""


def helper(parameters: str, statements: str, arguments: str) -> Callable[[], object]:
    """Lowers a kernel that calls a helper."""
    return kernel(HELPER.format(parameters=parameters, statements=statements, arguments=arguments))


FUNCTIONS: dict[str, Callable[[], object]] = {
    "outside-kernel": lambda: tile.exp(1.0),
    "not-a-function": lambda: tile.func(3),  # pyright: ignore[reportArgumentType]
    "kernel-lambda": lambda: tile.func(lambda: 0),
    "kernel-async": kernel("async def f(x): pass"),
    "kernel-generator": kernel("def f(x): yield x"),
    "kernel-method": kernel("class C:\n    def f(self): pass\nf = C.f"),
    "kernel-star-parameter": kernel("def f(*x): pass"),
    "source-unreadable": unreadable,
    "tensor-form": kernel("def f(x): return x"),
    "early-return": body("if m.start > 3:\n    return out"),
    "return-kind": kernel("def f(x):\n    for m in tile.grid(3): pass\n    return x.shape[0]"),
    "return-view": kernel("def f(x):\n    for m in tile.grid(3): pass\n    return x.T"),
    "recursion": helper("x", "helper(x)", "x"),
    "constexpr-run-time": helper("k: tile.constexpr", "pass", "s"),
    "call-arguments": body("tile.exp(x[m, n], axis=1)"),
    "argument-kind": body("tile.sum(x[m, n], axis=s)"),
    "not-callable": body("c(1)"),
    "dtype-called": body("tile.f16(x[m, n])"),
    "plain-call": body("math.exp(f)"),
    "scalars-only": body("max(x[m, n], 0)"),
}
NAMES: dict[str, Callable[[], object]] = {
    "name-unknown": body("out[m, n] = exp(x[m, n])"),
    "name-undefined-here": body("if s > 0:\n    z = 1\nout[m, n] = z"),
    "module-attribute": body("tile.flor(x[m, n])"),
    "language-word": lambda: getattr(tile, "flor"),  # noqa: B009 - which type checkers know not to be there
    "attribute-unknown": body("x.strides"),
    "captured-object": body("out[m, n] = table[0]", table=[1, 2]),
    "captured-callable": body("out[m, n] = np.exp(x[m, n])"),
    "assign-attribute": body("x.y = 1"),
    "unpack-kind": body("a, b = x[m, n]"),
    "unpack-rank": top("a, b, d = x.shape"),
    "kernel-called": body("out[m, n] = other(x)", other=tile.kernel(ast.parse)),
    "unpack-count": body("a, b, d = (1, 2)"),
    "store-target": body("v = x[m, n]\nv[0, :] = 1"),
    "literal-kind": body("v = 2j"),
    "compile-time-error": body("v = 1 // 0"),
    "not-a-value": body("out[m, n] = x[m, n] + m"),
    "tuple-position": body("(1, 2)[s]"),
    "tuple-range": body("x.shape[2]"),
    "tuple-subscript": body("x.shape[0, 1]"),
}
SIZES: dict[str, Callable[[], object]] = {
    "size-conflict": lambda: lower(
        kernel_from_text("def f(x, y):\n    K = x.shape[0]\n    K = y.shape[0]\n    for m in tile.grid(K): pass"),
        x=tensor(1, shape=(4,)),
        y=tensor(1, shape=(5,)),
    ),
    "shapes-differ": body("v = x[m, :] + x[:, n]"),
    "broadcast-to": body("v = tile.broadcast_to(x[m, n], (3, 4))"),
    "block-other-axis": body("v = y[m, n]\nu = y[n, m]"),
    "axis-used-twice": body("v = y[m, m]"),
    "axis-range": body("v = tile.sum(x[m, n], axis=2)"),
    "axis-repeated": body("v = tile.sum(x[m, n], axis=(0, -2))"),
    "sort-dtype": body("v = tile.sort(x[m, n])"),
    "stack-dtypes": body("v = tile.stack((x[m, n], x[m, n].to(tile.f16)))"),
    "axis-needed": body("v = tile.cumsum(x[m, n])"),
    "shape-entry": body("v = tile.zeros((m, 1.5))"),
    "shape-run-time": body("v = tile.zeros((m, s))"),
    "shape-negative": body("v = tile.zeros((m, -1))"),
    "reshape-size": body("v = x[m, n].reshape(m, 3)"),
    "formula-word": body("v = tile.concat((x, y))"),
    "reshape-holes": body("v = x[m, n].reshape(-1, -1)"),
    "not-a-permutation": body("v = x[m, n].transpose(0, 0)"),
    "transpose-rank": body("v = w[:].mT"),
    "fold-shapes": body("v = tile.reduce((x[m, n], x[m, :]), 0, tile.maximum)"),
    "combiner-count": kernel(
        "@tile.func\ndef first(a, i, b, j): return a\n\n"
        "def f(x):\n    for m in tile.grid(4):\n        tile.reduce((x[m, :], x[m, :]), 0, first)"
    ),
    "combiner-op": kernel(
        "@tile.func\ndef pick(a, b):\n    if a > b:\n        b = a\n    return b\n\n"
        "def f(x):\n    for m in tile.grid(4):\n        tile.reduce(x[m, :], 0, pick)"
    ),
    "combiner-rank": kernel(
        "@tile.func\ndef pair(a, b): return tile.full(2, a)\n\n"
        "def f(x):\n    for m in tile.grid(4):\n        tile.reduce(x[m, :], 0, pair)"
    ),
}
DTYPES: dict[str, Callable[[], object]] = {
    "dtype-4-bit": body("v = x[m, n].to(tile.i4)"),
    "dtype-not-taken": body("v = x[m, n] & x[m, n]"),
    "constant-range": body("v = i[:].to(tile.u8) + 300"),
    "negative-power": body("v = i[:] ** -1"),
    "condition-tile": body("if x[m, n] > 0:\n    pass"),
    "logic-tile": body("v = x[m, n] > 0 and s"),
    "integer-needed": body("for j in range(f): pass"),
    "is-run-time": body("v = s is f"),
    "in-run-time": body("v = s in (1, 2)"),
    "branches-differ": body("v = x[m, n] if s > 0 else x[m, :]"),
    "loop-carried-type": body("a = tile.zeros((m, n))\nfor k in tile.range(N):\n    a = a.to(tile.f64)"),
    "loop-carried-shape": body("a = tile.zeros(m)\nfor k in tile.range(N):\n    a = x[m, k]"),
    "static-assert": body("tile.static_assert(c == 5, 'c is five')"),
    "static-assert-run-time": body("tile.static_assert(s == 5)"),
    "assert-message": body("assert s > 0, s"),
    "atomic-dtype": body("tile.atomic_or(x[m, n], 1)"),
}
DOTS: dict[str, Callable[[], object]] = {
    "dot-rank": body("v = tile.dot(w[:], x[m, n])"),
    "dot-sizes": body("v = tile.dot(x[m, n], x[m, n])"),
    "dot-batches": body("v = tile.dot(x[:, n].reshape(M, 1, n), x[m, n].reshape(m, 1, n).mT)"),
    "dot-dtypes": body("v = tile.dot(i[:][None, :], i[:][:, None])"),
    "dot-accumulator": body("v = tile.dot(h[m, :], h[m, :].mT, tile.zeros((m, m), tile.f64))"),
    "dot-result": body("v = tile.dot(x[m, :], x[m, :].mT, dtype=tile.f16)"),
    "dot-precision": body("v = tile.dot(x[m, :], x[m, :].mT, precision='tf16')"),
    "dot-fast": body("v = tile.dot(h[m, :], h[m, :].mT, precision='fast')"),
}
MEMORY: dict[str, Callable[[], object]] = {
    "load-outside-grid": top("v = x[0, 0]"),
    "store-outside-grid": top("x[0, 0] = 1"),
    "tile-outside-grid": top("for k in tile.range(4): pass"),
    "empty-in-grid": body("v = tile.empty((m, n))"),
    "store-shape": body("out[m, n] = x[m, :]"),
    "load-other": body("v = tile.load(x[m, n], other=w[:])"),
    "not-an-access": body("v = tile.load(x)"),
    "full-value": body("v = tile.full(n, w[:])"),
    "arange-bound": body("v = tile.arange(s)"),
    "arange-step": body("v = tile.arange(0, 4, 0)"),
    "print-order": body("tile.print(s, 'after')"),
}
SUBSCRIPTS: dict[str, Callable[[], object]] = {
    "subscript-count": body("v = x[m, n, 0]"),
    "subscript-ellipsis": body("v = x[..., m, ...]"),
    "subscript-dtype": body("v = x[w[:], n]"),
    "subscript-kind": body("v = x['a', n]"),
    "subscript-range": lambda: lower(
        kernel_from_text("def f(x):\n    for m in tile.grid(1):\n        v = x[4]"), x=tensor(1, shape=(4,))
    ),
    "slice-bound": body("v = x[m, s:]"),
    "slice-range": body("v = x[m, 3:1]"),
    "slice-step": body("v = x[m, :][:, ::2]"),
    "slice-step-kind": body("v = x[m, ::s]"),
    "slice-step-gather": body("v = x[::2, ::-1]"),
    "gather-shapes": body("v = x[i[:], n.index]"),
    "not-subscriptable": body("v = c[0]"),
    "tile-block-subscript": body("v = x[:, :][m, n]"),
    "tile-gather": body("v = x[m, :][:, i[:]]"),
}
LOOPS: dict[str, Callable[[], object]] = {
    "grid-nested": body("for k in tile.grid(N): pass"),
    "grid-place": top("if s > 0:\n    for k in tile.grid(4): pass"),
    "grid-break": body("break"),
    "grid-sizes": top("for k in tile.grid(): pass"),
    "loop-word": top("k = tile.grid(4)"),
    "loop-target": top("for x[0] in tile.grid(4): pass"),
    "loop-target-count": top("for a, b in tile.grid(4): pass"),
    "loop-target-repeated": top("for a, a in tile.grid(4, 4): pass"),
    "loop-else": body("for k in range(3): pass\nelse: pass"),
    "block-count": top("for a, b in tile.grid(4, 4, block=(2, 2, 2)): pass"),
    "block-size": top("for a, b in tile.grid(4, 4, block=(2, s)): pass"),
    "num-stages": body("for k in tile.range(4, num_stages=0): pass"),
    "for-kind": body("for k in x[m, n]: pass"),
    "range-arguments": body("for k in range(): pass"),
    "range-step": body("for k in range(0, 4, s): pass"),
    "unroll-limit": body("for k in range(5000): pass"),
    "condition-writes": body("while tile.atomic_add(x[0, 0], 1) < 3: pass"),
    "while-forever": body("while True: pass"),
}
PYTHON: dict[str, Callable[[], object]] = {
    "python-async": kernel("def f(x):\n    for m in tile.grid(3):\n        async def g(): pass"),
    "python-class": body("class C: pass"),
    "python-comprehension": body("v = [k for k in (1, 2)]"),
    "python-del": body("v = 1\ndel v"),
    "python-dict": body("v = {1: 2}"),
    "python-f-string": body("tile.print(f'{s}')"),
    "python-global": body("global g"),
    "python-import": body("import os"),
    "python-lambda": body("v = lambda a: a"),
    "python-list": body("v = [1, 2]"),
    "python-match": body("match s:\n    case 1: pass"),
    "python-nested-function": body("def g(): pass"),
    "python-nonlocal": kernel(
        "def outer():\n    g = 1\n    def f(x):\n        for m in tile.grid(3):\n            nonlocal g\n    return f\n"
        "f = outer()"
    ),
    "python-raise": body("raise ValueError"),
    "python-set": body("v = {1, 2}"),
    "python-star": body("v = tile.zeros(*(m, n))"),
    "python-try": body("try: pass\nexcept ValueError: pass"),
    "python-walrus": body("v = (u := 1)"),
    "python-with": body("with s: pass"),
    "python-chained-comparison": body("v = 0 < s < 3"),
    "python-other": later_python,
}
CASES: dict[str, Callable[[], object]] = {
    **FUNCTIONS, **NAMES, **SIZES, **DTYPES, **DOTS, **MEMORY, **SUBSCRIPTS, **LOOPS, **PYTHON,
}  # fmt: skip


GOLDEN = Path(__file__).parents[2] / "golden" / "frontend_messages.txt"
"""Every error as users see it. A line `== code` starts each."""


def shown(error: TileError) -> str:
    """The error's whole text, without what depends on where and in which order the tests run."""
    if error.location is None or not error.location.file.startswith("<kernel"):
        return f"{type(error).__name__}: {error.message}\n  fix: {error.fix}"
    return re.sub(r"<kernel \d+>", "kernel.py", str(error)).strip("\n")


def golden() -> dict[str, str]:
    sections = re.split("^== ", GOLDEN.read_text(), flags=re.MULTILINE)[1:]
    return {code: text.rstrip("\n") for code, _, text in (section.partition("\n") for section in sections)}


def test_every_message_has_a_case(update_golden: bool) -> None:
    assert set(CASES) == set(ENTRIES)
    if update_golden:
        GOLDEN.write_text("\n".join(f"== {code}\n{shown(caught(code))}\n" for code in CASES))
    assert set(golden()) == set(CASES)


def caught(code: str) -> TileError:
    with pytest.raises(TileError) as info:
        CASES[code]()
    return info.value


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    error = caught(code)
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert error.location is not None
    assert error.fix
    assert shown(error) == golden()[code]
