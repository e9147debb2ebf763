"""A formula of the zoo, its sizes, and PyTorch's way to the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

from tiledsl import tile
from tiledsl.ir.dtypes import DType, bf16, f16, f32

Shape = tuple[int, ...]
Formula = Union[
    Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any],
    Callable[[Any, Any, Any, Any, Any], Any],
]  # fmt: skip
"""Of tensors; written out, so that checkers know what a lambda takes."""
Expected = Union[
    Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any], Callable[[Any, Any, Any, Any], Any],
    Callable[[Any, Any, Any, Any, Any, Any], Any],
]  # fmt: skip
"""Of torch and tensors."""
TORCH_NAMES = {f16: "float16", bf16: "bfloat16", f32: "float32"}


@dataclass(frozen=True)
class ZooCase:
    """`formula` takes tensors of `shapes`, all of `dtype`; `expected` takes torch and the same tensors. Elements are
    normal numbers, times `scale` (one for all, or one each)."""

    family: str
    name: str
    formula: Formula
    expected: Expected
    shapes: tuple[Shape, ...]
    dtype: DType = f16
    scale: float | tuple[float, ...] = 1.0

    def specs(self) -> list[Any]:
        """The arguments as `tile.spec` has them."""
        return [tile.spec(shape, self.dtype) for shape in self.shapes]

    def tensors(self, torch: Any) -> list[Any]:
        """The arguments on the device: the same in every run."""
        generator = torch.Generator(device="cuda").manual_seed(0)
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,) * len(self.shapes)
        dtype = getattr(torch, TORCH_NAMES[self.dtype])
        return [
            (torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32) * scale).to(dtype)
            for shape, scale in zip(self.shapes, scales)
        ]
