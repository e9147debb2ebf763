"""Kernels with other names: every variable, parameter and helper of a kernel, and the kernel itself, is called anew."""

from __future__ import annotations

import ast
import inspect
import keyword
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from tests.support.gpu_cases.gpu_cases import Case
from tests.support.kernels.lowered_kernels import kernel_from_text
from tiledsl import Kernel
from tiledsl.backend_cuda.frame.names import LOOPS, VARIABLES
from tiledsl.backend_cuda.functions.preamble import defined_names
from tiledsl.tile import kernel

WORDS_OF_C = """
    alignas asm auto bool case catch char char8_t concept const constexpr default delete do double dynamic_cast enum
    explicit export extern final float goto inline int long mutable namespace new noexcept not_eq nullptr operator
    override private protected public register requires short signed sizeof static struct switch template this throw
    true typedef typename union unsigned using virtual void volatile wchar_t xor NULL NAN INFINITY HUGE_VALF FLT_MAX
    INT_MAX M_PI EOF assert offsetof main size_t dim3 float4 half __half uint3 uint8_t int64_t cudaError_t clock
    __shared__ __global__ __device__ __restrict__ __launch_bounds__ __CUDA_ARCH__ __syncthreads __shfl_sync __ldg
    __FILE__ __LINE__ __cplusplus __NVCC__ linux unix i386 round y0 j1 norm3d hypot signbit isnan memcpy TensorMap Piece
"""

LIKE_DERIVED = (
    "x_ x_1_ x_at x_at_ N_blocks N_blocks_ row_1 row_ x_stride0 x_stride0_ rows_extent kernel_ _x __x x__ _ ss"
)

OTHERS = "é größe λ 変数 ñ_ ªb x٣"
"""Identifiers of Python that are none of C."""


def generated_names() -> list[str]:
    """All that generated code calls something by, and what looks like it, but for what is no identifier of Python."""
    listed = " ".join([WORDS_OF_C, LIKE_DERIVED, OTHERS]).split()
    words = [*sorted(VARIABLES), *sorted(LOOPS), *sorted(defined_names()), *listed]
    return [word for word in dict.fromkeys(words) if word.isidentifier() and not keyword.iskeyword(word)]


def one_of_each_kernel(cases: Iterable[Case]) -> list[Case]:
    """The first case of each kernel, of those that are written alike too."""
    found: dict[object, Case] = {}
    for case in cases:
        found.setdefault(case.kernel.__wrapped__.__code__, case)
    return list(found.values())


class _Names(ast.NodeVisitor):
    """The names that a function gives to something, in order."""

    def __init__(self) -> None:
        self.given: dict[str, None] = {}
        self.read: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.given[node.name] = None
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self.given[node.arg] = None
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.given[node.id] = None
        else:
            self.read.add(node.id)


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.names[node.name]
        node.decorator_list, node.returns = [], None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.names[node.arg]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node


def renamed(case: Case, words: Sequence[str], start: int) -> tuple[Case, int]:
    """The case with a kernel whose names are those of `words` from place `start` on, and the place after them."""
    function = case.kernel.__wrapped__
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = _Names()
    names.visit(tree)
    outside = names.read - set(names.given)
    free = [word for word in [*words[start % len(words) :], *words] if word not in outside and word != "out"]
    given = [name for name in names.given if name != "out"]  # a name with a meaning at the call
    mapping = {"out": "out", **dict(zip(given, dict.fromkeys(free)))}
    text = ast.unparse(_Renamer(mapping).visit(tree))
    seen = inspect.getclosurevars(function)
    around = {name: value for name, value in {**seen.globals, **seen.nonlocals}.items() if name in outside}
    # Python normalises names in programs, so that no keyword of another form reaches a function
    constants = {unicodedata.normalize("NFKC", mapping[name]): value for name, value in case.constants.items()}
    again: Kernel = kernel(kernel_from_text(text, **around))
    return Case(case.name, again, case.make, constants, case.relative, case.terms), start + len(given)
