"""The state of emission that the CUDA functions of one program share."""

from __future__ import annotations

from tiledsl.backend_cuda.frame.kernel_code import Assertion, ScratchCode, TensorMapCode
from tiledsl.backend_cuda.frame.multiples import Multiples
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.ir.core import Function, Value
from tiledsl.ir.gpu.tensor_maps import TensorMap
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType, TileType


class ProgramFrame:
    """What the kernels of one program share."""

    def __init__(self, function: Function, capability: int) -> None:
        self.function = function
        self.capability = capability
        self.preamble = Preamble(capability)
        self.assertions: list[Assertion] = []
        self.multiples = Multiples(function)
        parameters = function.parameters
        new = [op for op in function.body.ops if isinstance(op, Empty)]
        scratch = [op for op in new if op.scratch]
        tensors = [p for p in parameters if isinstance(p.type, TensorType)]
        tensors += [op.result for op in new if not op.scratch] + [op.result for op in scratch]
        self.tensors = {tensor: number for number, tensor in enumerate(tensors)}
        self.scratch = tuple(ScratchCode(op.shape, op.dtype.name) for op in scratch)
        scalars = [p for p in parameters if isinstance(p.type, TileType)]
        self.scalars = {scalar: number for number, scalar in enumerate(scalars)}
        self.maps: list[TensorMapCode] = []

    def map_number(self, tensor: Value, wanted: TensorMap) -> int:
        """The number of a tensor map, which the program then has."""
        type_ = tensor.type
        assert isinstance(type_, TensorType)
        seen = wanted.windows
        windows = () if seen is None else (seen.positions, seen.strides, seen.lows)
        code = TensorMapCode(
            self.tensors[tensor], tensor.name, wanted.dtype.name, type_.shape, wanted.axes, wanted.box, wanted.swizzle,
            windows,
        )  # fmt: skip
        if code not in self.maps:
            self.maps.append(code)
        return self.maps.index(code)
