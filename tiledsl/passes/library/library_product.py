"""A product as a library for matrices computes one: which tensors, by which axes, and what is done to each sum.

out[b, m, n] = act(sum over k of left[b, m, k] * right[b, k, n] + bias[n])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

ACTIVATIONS = ("", "relu", "gelu")
"""What is done to sums at the end: nothing; max(x, 0); x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3))) / 2."""
Axes = tuple[str, ...]


@dataclass(frozen=True)
class LibraryProduct:
    """`left`, `right`, `out`, `bias`: numbers of tensors, parameters first; `bias` is -1 where there is none.

    `axes`: of these three (in that order) the names of their axes. `sizes`: of each axis. Sums are made in f32.
    """

    left: int
    right: int
    out: int
    axes: tuple[Axes, Axes, Axes]
    sizes: tuple[tuple[str, int], ...]
    dtype: str
    out_dtype: str
    bias: int = -1
    activation: str = ""

    @property
    def axis_of_bias(self) -> str:
        """The last axis that the right operand alone has, wherever it is in the result."""
        return [name for name in self.axes[1] if name in self.axes[2] and name not in self.axes[0]][-1]

    def __str__(self) -> str:
        """`tensor 2[m, n] f16 = relu(tensor 0[m, k] * tensor 1[n, k] + tensor 3[n]), f16, m = 256, k = 512, n = 384`"""
        named = [f"tensor {n}[{', '.join(axes)}]" for n, axes in zip((self.left, self.right, self.out), self.axes)]
        value = f"{named[0]} * {named[1]}"
        if self.bias >= 0:
            value += f" + tensor {self.bias}[{self.axis_of_bias}]"
        value = f"{self.activation}({value})" if self.activation else value
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes)
        return f"{named[2]} {self.out_dtype} = {value}, {self.dtype}, {sizes}"


def product_to_json(product: LibraryProduct) -> dict[str, Any]:
    return asdict(product)


def product_from_json(described: Mapping[str, Any]) -> LibraryProduct:
    """The inverse of `product_to_json`: lists become tuples again."""
    left, right, out = (tuple(names) for names in described["axes"])
    sizes = tuple((str(name), int(size)) for name, size in described["sizes"])
    others: dict[str, Any] = {**described, "axes": (left, right, out), "sizes": sizes}
    return LibraryProduct(**others)


class NoLibraryCallError(Exception):
    """Why a library has no call for a program, or not for tensors that lie so."""


@dataclass(frozen=True)
class MatmulCall:
    """A product as BLAS names it, whose matrices lie column by column: D = act(op(A) op(B) + bias), `batches` times.

    D is `rows` x `columns`, and `sums` numbers are added for each element. `tensors`: the numbers of A, B and D;
    `lines`: elements from one column of each to the next; `steps`: from one batch to the next. `turned`: whether A and
    B are stored the other way round. `bias`: one number for each row of D.
    """

    tensors: tuple[int, int, int]
    rows: int
    columns: int
    sums: int
    turned: tuple[bool, bool]
    lines: tuple[int, int, int]
    dtype: str
    out_dtype: str
    batches: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)
    bias: int = -1
    activation: str = ""


def call_of(product: LibraryProduct, strides: Sequence[Sequence[int]]) -> MatmulCall:
    """The call for tensors that lie so. `strides`: in elements, of each tensor. Raises NoLibraryCallError.

    A tensor that lies row by row is, column by column, its own transpose: so D is the transpose of the result, and the
    right operand comes first. Where the result itself lies column by column, it is the other way round.
    """
    names = dict(zip(("left", "right", "out"), product.axes))
    numbers = {"left": product.left, "right": product.right, "out": product.out}
    sizes = dict(product.sizes)
    at = {role: dict(zip(names[role], strides[numbers[role]])) for role in names}
    of = {
        "batch": [n for n in names["out"] if n in names["left"] and n in names["right"]],
        "left": [n for n in names["out"] if n not in names["right"]],
        "right": [n for n in names["out"] if n not in names["left"]],
        "sum": [n for n in names["left"] if n not in names["out"]],
    }
    merged = {kind: _merged(axes, [one for one in at.values() if set(axes) <= set(one)], sizes)
              for kind, axes in of.items()}  # fmt: skip
    length = {kind: size for kind, (size, _) in merged.items()}

    def stride(role: str, kind: str) -> int:
        axis = merged[kind][1]
        return at[role].get(axis, 0) if axis else 0

    by_rows = stride("out", "right") == 1 or length["right"] == 1
    if not by_rows and product.bias >= 0:
        raise NoLibraryCallError("its result lies column by column, and a bias is added to rows")
    first, second = ("right", "left") if by_rows else ("left", "right")
    turned_first, line_first = _lying(stride(first, first), stride(first, "sum"), length[first], length["sum"])
    turned_second, line_second = _lying(stride(second, "sum"), stride(second, second), length["sum"], length[second])
    turned_out, line_out = _lying(stride("out", first), stride("out", second), length[first], length[second])
    if turned_out:
        raise NoLibraryCallError("neither rows nor columns of its result lie without gaps")
    if product.bias >= 0 and length["right"] != sizes[product.axis_of_bias]:
        raise NoLibraryCallError("its bias is one for several columns")
    steps = (stride(first, "batch"), stride(second, "batch"), stride("out", "batch"))
    if min(steps) < 0:
        raise NoLibraryCallError("its batches lie backwards")
    if product.bias >= 0 and strides[product.bias][-1:] not in ([1], (1,)) and length["right"] > 1:
        raise NoLibraryCallError("its bias does not lie without gaps")
    return MatmulCall(
        (numbers[first], numbers[second], numbers["out"]), length[first], length[second], length["sum"],
        (turned_first, turned_second), (line_first, line_second, line_out), product.dtype, product.out_dtype,
        length["batch"], steps, product.bias, product.activation,
    )  # fmt: skip


def _merged(axes: Sequence[str], tensors: Sequence[Mapping[str, int]], sizes: Mapping[str, int]) -> tuple[int, str]:
    """How many elements there are along axes that lie as one does, and the name of the last, whose stride is that of
    all. `tensors`: strides, by axis."""
    long = [axis for axis in axes if sizes[axis] > 1]
    total = 1
    for axis in long:
        total *= sizes[axis]
    for outer, inner in pairwise(long):
        if any(tensor[outer] != tensor[inner] * sizes[inner] for tensor in tensors):
            raise NoLibraryCallError(f"axes {outer} and {inner} do not lie as one")
    return total, long[-1] if long else ""


def _lying(down: int, across: int, rows: int, columns: int) -> tuple[bool, int]:
    """Whether a matrix of `rows` x `columns` is stored the other way round, and from where to where its lines are.
    `down`, `across`: strides of its rows and columns."""
    ways = ((False, down, across, rows, columns), (True, across, down, columns, rows))
    for turned, step, line, length, count in ways:
        if (step == 1 or length == 1) and (line >= length or count == 1):
            return turned, max(line, length)
    raise NoLibraryCallError("neither rows nor columns of an operand lie without gaps")
