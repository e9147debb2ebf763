"""From what people pass to `compile` to the keys of a specialisation, and on to what the front end asks for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

import numpy as np
from typing_extensions import assert_never

from tiledsl.api.calls.targets import cuda_services
from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument, ScalarArgument, TensorArgument
from tiledsl.frontend.language.values import TensorSpec, constexpr
from tiledsl.ir import dtypes
from tiledsl.ir.dtypes import DType
from tiledsl.runtime.arrays.arrays import as_array, is_array, is_foreign_array
from tiledsl.runtime.calls.dispatch import argument_key
from tiledsl.runtime.calls.specialise import (
    DIVISOR,
    ArgumentKey,
    ConstantKey,
    ScalarKey,
    TensorKey,
    is_numpy_number,
    tensor_key,
)
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

if TYPE_CHECKING:
    from tiledsl.runtime.arrays.cuda_arrays import DeviceView


def constant_names(signature: inspect.Signature) -> frozenset[str]:
    """The parameters that are annotated `tile.constexpr`."""
    return frozenset(name for name, p in signature.parameters.items() if _is_constexpr(p.annotation))


def _is_constexpr(annotation: object) -> bool:
    marker: object = constexpr
    # `from __future__ import annotations` leaves the text
    return annotation is marker or (isinstance(annotation, str) and annotation.strip().split(".")[-1] == "constexpr")


def spec_key(name: str, spec: object, constant: bool) -> ArgumentKey:
    """The key of one argument of `compile`: an array, a `tile.spec`, a number type, a number, or a constant.

    Raises TileTypeError for anything else.
    """
    if constant:
        return argument_key(name, spec, constant=True)
    if isinstance(spec, TensorSpec):
        return _tensor_key(name, spec)
    if spec is int or spec is float or spec is bool:
        return ScalarKey("int" if spec is int else "float" if spec is float else "bool")
    if _is_number_type(spec):
        return argument_key(name, spec(0), constant=False)
    view = _view_on_device(spec, name)
    if view is not None:
        return tensor_key(view)
    if is_array(spec):
        return argument_key(name, as_array(spec, name), constant=False)
    if spec is None or is_numpy_number(spec) or isinstance(spec, (int, float, str, DType)):
        return argument_key(name, spec, constant=False)
    _fail_spec(name, spec)


def arch_of_specs(specs: Iterable[object]) -> str:
    """What to compile for: the architecture of the device that the arrays among `specs` are on, else `cpu`."""
    for spec in specs:
        view = _view_on_device(spec, "spec")
        if view is not None:
            return cuda_services().arch(view.device)
    return "cpu"


def _view_on_device(spec: object, name: str) -> DeviceView | None:
    """An array on a CUDA device as the runtime sees it; None for everything else."""
    if not is_foreign_array(spec):
        return None
    from tiledsl.runtime.arrays.cuda_arrays import ArrayReader, is_on_cuda  # costs start-up time

    return ArrayReader(cuda_services).read(spec, name) if is_on_cuda(spec) else None


def _is_number_type(spec: object) -> TypeGuard[Callable[[int], object]]:
    return isinstance(spec, type) and issubclass(spec, np.generic)


def _tensor_key(name: str, spec: TensorSpec) -> TensorKey:
    """The key of a tensor that is not there: row by row, of sizes as far as the spec tells them."""
    dtype: Any = spec.dtype
    if not isinstance(dtype, DType):
        try:
            known = dtypes.from_numpy(np.dtype(dtype))
        except TypeError:
            known = None
        if known is None:
            _fail_spec(name, dtype)
        dtype = known
    sizes: tuple[object, ...] = spec.shape
    for axis, size in enumerate(sizes):
        fits = size is None or (isinstance(size, int) and size >= 0) or (isinstance(size, str) and size.isidentifier())
        if not fits:
            fail("spec-size", caller_location(), parameter=name, axis=axis, size=size)
    divisible = tuple(isinstance(size, int) and size % DIVISOR == 0 for size in spec.shape)
    return TensorKey(dtype, spec.shape, len(spec.shape) - 1 if spec.shape else None, divisible)


def _fail_spec(name: str, spec: object) -> NoReturn:
    fail("spec-invalid", caller_location(), parameter=name, kind=type(spec).__name__)


def front_end_argument(key: ArgumentKey) -> Argument:
    """A key in the front end's terms."""
    match key:
        case TensorKey(dtype, shape, unit, divisible):
            return TensorArgument(dtype, shape, unit, divisible)
        case ScalarKey(kind, dtype):
            return ScalarArgument(kind, dtype)
        case ConstantKey():
            return ConstantArgument(key.value)
        case _:
            assert_never(key)
