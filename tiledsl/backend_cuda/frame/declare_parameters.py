"""The parameters of a CUDA function as it declares them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tiledsl.backend_cuda.frame.kernel_code import KernelParameter
from tiledsl.backend_cuda.functions.scalars import memory_type
from tiledsl.ir.core import Value
from tiledsl.ir.types import TensorType

_ORDER = ("map", "tensor", "size", "stride", "scalar", "failure")


def declared_parameters(
    names: Mapping[KernelParameter, str], tensors: Mapping[Value, int], written: Collection[Value]
) -> list[tuple[KernelParameter, str]]:
    """Each parameter with its C declaration: tensor maps, tensors, sizes, strides, scalars, the failure record.

    `tensors`: those of the program, with their numbers; `written`: those that the function writes to.
    """
    by_number = {number: value for value, number in tensors.items()}
    found: list[tuple[KernelParameter, str]] = []
    for parameter in sorted(names, key=_position):
        name = names[parameter]
        match parameter.kind:
            case "tensor":
                tensor = by_number[parameter.index]
                assert isinstance(tensor.type, TensorType)
                read_only = "" if tensor in written else "const "
                text = f"{read_only}{memory_type(tensor.type.dtype)}* __restrict__ {name}"
            case "map":
                text = f"const __grid_constant__ TensorMap {name}"
            case "scalar":
                text = f"{_scalar_type(parameter.symbol)} {name}"
            case "failure":
                text = f"unsigned long long* {name}"
            case _:
                text = f"long long {name}"
        found.append((parameter, text))
    return found


def _position(parameter: KernelParameter) -> tuple[int, int, int, str]:
    return (_ORDER.index(parameter.kind), parameter.index, parameter.axis, parameter.symbol)


def _scalar_type(dtype: str) -> str:
    if dtype.startswith(("f", "bf")):
        return "double"
    return "unsigned long long" if dtype == "u64" else "long long"
