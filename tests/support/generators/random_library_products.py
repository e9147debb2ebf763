"""Random products with a batch, a bias and an activation: as data with tensors that lie in some way, and as formulas.

Lying: axes in any order, with gaps behind rows, batches that are one matrix, rows that are read backwards
Written: (x @ w.T).T, relu(x @ w + b), gelu, and what is nearly one of these
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tiledsl import ops, tile
from tiledsl.passes.library.library_product import ACTIVATIONS, LibraryProduct


@dataclass(frozen=True)
class LyingProduct:
    """A product, and for each tensor (left, right, out, bias) how its elements lie: `strides`, and `plain`, whether a
    library has to take it."""

    product: LibraryProduct
    strides: tuple[tuple[int, ...], ...]
    plain: bool


@st.composite
def lying_products(draw: st.DrawFn) -> LyingProduct:
    batches = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2))
    sizes = {f"b{number}": size for number, size in enumerate(batches)}
    batch = tuple(sizes)
    sizes |= {name: draw(st.sampled_from([1, 2, 5, 8])) for name in "mkn"}
    plain = draw(st.booleans())
    axes = [(*batch, "m", "k"), (*batch, "k", "n"), (*batch, "m", "n")]
    if not plain:
        axes = [tuple(draw(st.permutations(names))) for names in axes]
    elif draw(st.booleans()):
        axes[1] = (*batch, "n", "k")
    strides = [strides_for(draw, names, sizes, plain=plain, written=n == 2) for n, names in enumerate(axes)]
    bias = 3 if draw(st.booleans()) else -1
    left, right, out = axes
    product = LibraryProduct(
        0, 1, 2, (left, right, out), tuple(sizes.items()), draw(st.sampled_from(["f16", "bf16"])), "f32", bias,
        draw(st.sampled_from(ACTIVATIONS)),
    )  # fmt: skip
    lying = 1 if plain else draw(st.sampled_from([1, 1, 2]))
    return LyingProduct(product, (*strides, (lying,)), plain)


def strides_for(
    draw: st.DrawFn, names: Sequence[str], sizes: Mapping[str, int], *, plain: bool, written: bool
) -> tuple[int, ...]:
    """Strides by which no element has the place of another, but where a tensor that is only read repeats itself."""
    order = list(names) if plain else draw(st.permutations(names))
    found: dict[str, int] = {}
    step = 1
    for name in reversed(order):
        found[name] = step
        step = step * sizes[name] + (0 if plain else draw(st.sampled_from([0, 0, 0, 3])))
    if not plain and not written and draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(list(names)))
        found[name] = draw(st.sampled_from([0, -found[name]]))
    return tuple(found[name] for name in names)


BEHIND: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda x: x,
    "relu": tile.relu,
    "relu by where": lambda x: tile.where(x > 0, x, 0),
    "gelu by tanh": lambda x: ops.gelu(x, "tanh"),
    "gelu by sigmoid": lambda x: x * tile.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)),
    "gelu": ops.gelu,
    "silu": tile.silu,
    "clip at 1": lambda x: tile.minimum(tile.relu(x), 1),
    "clip at 5000": lambda x: tile.minimum(tile.relu(x), 5000),
    "clip at 5000, scaled": lambda x: tile.minimum(tile.relu(x) * 0.001, 5) * 1000,
    "leaky": lambda x: tile.maximum(x, x * 0.01),
    "leaky, a little": lambda x: tile.maximum(x, x * 1e-3),
    "twice": lambda x: x * 2,
    "shrunk": lambda x: tile.where(abs(x) > 0.01, x, 0),
}
FUNCTION_OF = {
    "nothing": "", "relu": "relu", "relu by where": "relu", "gelu by tanh": "gelu", "gelu by sigmoid": "gelu",
}  # fmt: skip
"""The others are none of a library's."""
BESIDE: dict[str, tuple[Callable[[int, int], tuple[int, ...]], bool]] = {
    "nothing": (lambda rows, columns: (), True),
    "bias": (lambda rows, columns: (columns,), True),
    "bias as a row": (lambda rows, columns: (1, columns), True),
    "column": (lambda rows, columns: (rows, 1), False),
    "residual": (lambda rows, columns: (rows, columns), False),
}
"""What is added: its shape, and whether it is a bias."""


@dataclass(frozen=True)
class WrittenProduct:
    """A formula of x[m, k] and w, with what is `beside` and `behind` the product; `turned`: the operands that are
    stored the other way round, and whether the result is turned. `doubled`: the left operand is computed."""

    sizes: tuple[int, int, int]
    batch: int
    turned: tuple[bool, bool, bool]
    beside: str
    behind: str
    doubled: bool
    dtype: Any

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        m, n, k = self.sizes
        left, right, _ = self.turned
        batch = (self.batch,) if self.batch else ()
        shapes = [(*batch, *((k, m) if left else (m, k))), (*batch, *((n, k) if right else (k, n)))]
        beside = BESIDE[self.beside][0](m, n)
        return [*shapes, beside] if beside else shapes

    def __call__(self, x: Any, w: Any, *beside: Any) -> Any:
        left, right, out = self.turned
        x = _turned(x) if left else x
        made = tile.dot(x * 2 if self.doubled else x, _turned(w) if right else w)
        if beside:
            made = made + beside[0]
        made = BEHIND[self.behind](made).to(self.dtype)
        return _turned(made) if out else made

    @property
    def activation(self) -> str | None:
        """That of the library's call which computes it; None: there is no such call."""
        is_one = BESIDE[self.beside][1] and not self.doubled
        return FUNCTION_OF.get(self.behind) if is_one else None


def _turned(x: Any) -> Any:
    axes = range(len(x.shape))
    return tile.transpose(x, (*axes[:-2], axes[-1], axes[-2]))


@st.composite
def written_products(draw: st.DrawFn) -> WrittenProduct:
    size = st.sampled_from([8, 12, 12, 24])
    return WrittenProduct(
        (draw(size), draw(size), draw(size)),
        draw(st.sampled_from([0, 0, 2])),
        (draw(st.booleans()), draw(st.booleans()), draw(st.booleans())),
        draw(st.sampled_from(list(BESIDE))),
        draw(st.sampled_from([*FUNCTION_OF, *BEHIND])),
        draw(st.integers(0, 9)) == 9,
        draw(st.sampled_from([tile.f16, tile.bf16])),
    )


def drawn_tensors(lying: LyingProduct, seed: int) -> list[Any]:
    """Left, right and bias (None: there is none) in f64, of small whole numbers."""
    random = np.random.default_rng(seed)
    sizes = dict(lying.product.sizes)
    left, right, _ = lying.product.axes
    shapes = [[sizes[name] for name in names] for names in (left, right, ("n",))]
    made = [random.integers(-3, 4, shape).astype(np.float64) for shape in shapes]
    return [*made[:2], made[2] if lying.product.bias >= 0 else None]
