"""Convolutions of random sizes, plain and transposed, against PyTorch: traced for all, in the emulator for some."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tests.support.op_checks import F16, F32, F64, Array, normal
from tiledsl import ops
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.passes.graph.rewrites.windows import split_windows

torch = pytest.importorskip("torch")
LAYOUTS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


@dataclass(frozen=True)
class Convolution:
    """What a convolution is called with; `options` as PyTorch has them. `last`: with channels last."""

    transposed: bool
    last: bool
    image: tuple[int, ...]
    weight: tuple[int, ...]
    options: dict[str, Any]

    @property
    def rank(self) -> int:
        return len(self.image) - 2

    @property
    def outer(self) -> int:
        return self.weight[1] * self.options["groups"] if self.transposed else self.weight[0]

    def wanted(self, arrays: list[Array]) -> Array | None:
        """What PyTorch computes in f64; None where it gives nothing, or refuses."""
        name = f"conv_transpose{self.rank}d" if self.transposed else f"conv{self.rank}d"
        try:
            given = [torch.tensor(v.astype(F64)) for v in arrays]
            made: Array = getattr(torch.nn.functional, name)(*given, **self.options).numpy()
        except RuntimeError:
            return None
        return made.astype(arrays[0].dtype) if made.size else None

    def formula(self, x: Any, w: Any, b: Any) -> Any:
        name = f"conv_transpose{self.rank}d" if self.transposed else f"conv{self.rank}d"
        return getattr(ops, name)(x, w, b, layout=LAYOUTS[self.rank] if self.last else None, **self.options)

    def given(self, arrays: list[Array]) -> list[Array]:
        x, w, b = arrays
        return [np.ascontiguousarray(np.moveaxis(v, 1, -1)) for v in (x, w)] + [b] if self.last else arrays


@st.composite
def convolutions(draw: st.DrawFn, channels: tuple[int, ...] = (1, 2, 3), columns: int = 4) -> Convolution:
    """Sizes from 1 on: results may be shorter than a stride, windows as long as the image."""
    transposed, rank = draw(st.booleans()), draw(st.integers(1, 3))
    groups, inner, outer = draw(st.sampled_from((1, 1, 2, 3))), draw(st.sampled_from(channels)), columns

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(rank))

    options: dict[str, Any] = {"stride": each(1, 4), "padding": each(0, 3), "dilation": each(1, 3), "groups": groups}
    if transposed:
        longest = map(max, options["stride"], options["dilation"])
        options["output_padding"] = tuple(draw(st.integers(0, most - 1)) for most in longest)
    sides = (inner * groups, outer) if transposed else (outer * groups, inner)
    image = (draw(st.integers(1, 2)), inner * groups, *each(1, 5))
    return Convolution(transposed, draw(st.booleans()), image, (*sides, *each(1, 4)), options)


def _arrays(case: Convolution, dtype: Any) -> list[Array]:
    return [normal(*shape, dtype=dtype) for shape in (case.image, case.weight, (case.outer,))]


@settings(max_examples=150, deadline=None)
@given(convolutions())
def test_random_convolutions(case: Convolution) -> None:
    arrays = _arrays(case, F32)
    wanted = case.wanted(arrays)
    if wanted is None:
        return
    given_ = case.given(arrays)
    graph = tiledsl.trace(case.formula, *given_)
    (actual,) = execute_graph(graph.module.entry, given_, graph.module)
    terms = int(np.prod(case.weight[2:])) * case.image[1] + 1
    assert_close(np.moveaxis(actual, -1, 1) if case.last else actual, wanted, relative=1e-5, terms=terms)


@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(convolutions(channels=(8, 16, 12), columns=8))
def test_in_the_emulator(case: Convolution) -> None:
    arrays = _arrays(case, F16)
    wanted = case.wanted(arrays)
    if wanted is None:
        return
    given_ = case.given(arrays)
    graph = tiledsl.trace(case.formula, *given_)
    actual = np.asarray(emulate_graph(graph, given_, {}, None, Request(arch="sm_90")).result)
    terms = int(np.prod(case.weight[2:])) * case.image[1] + 1
    assert_close(np.moveaxis(actual, -1, 1) if case.last else actual, wanted, relative=4e-3, terms=terms)


@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(convolutions(channels=(1, 3, 8), columns=8))
def test_planes_in_the_emulator(case: Convolution) -> None:
    """f32, by planes of the image wherever that can be, pixels of few channels by rows."""
    arrays = _arrays(case, F32)
    wanted = case.wanted(arrays)
    if wanted is None:
        return
    given_ = case.given(arrays)
    graph = tiledsl.trace(case.formula, *given_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_windows, "GAIN", 1e9)
        actual = np.asarray(emulate_graph(graph, given_, {}, None, Request(arch="sm_90")).result)
    terms = int(np.prod(case.weight[2:])) * case.image[1] + 1
    assert_close(np.moveaxis(actual, -1, 1) if case.last else actual, wanted, relative=1e-5, terms=terms)
