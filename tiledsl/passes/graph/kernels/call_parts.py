"""Tensors of a tile program that are parts of others: a call that gives both gives one.

    %v = graph.slice(%k) {stops = [2048, 64, 1, 512]}
    %o = graph.call(%q, %k, %v) {callee = paged}           func @paged(%q, %k, %v: tensor<f16, [X, P, G, E]>) {
                                                             %values = tile.load(%v, [%page, %row, %g, :])
 =>
    %o = graph.call(%q, %k) {callee = paged_0}             func @paged_0(%q, %k) {
                                                             %values = tile.load(%k, [%page, %row, %g, 0:512])

Only where the program loads both at the same places: there one load brings both on machines that load ahead
(`passes/gpu/products/load_parts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Value
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import Slice, Whole
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import view_of_value


def with_fewer_tensors(function: Function, inputs: Sequence[Value]) -> tuple[Function, list[Value]] | None:
    """A program that reads parts of its tensors out of these, and what it is given; None where it has none."""
    found = [
        (part, whole, axis)
        for part in range(len(inputs))
        for whole in range(len(inputs))
        if (axis := _shorter_axis(inputs[part], inputs[whole])) is not None
        and _is_loaded_beside(function.parameters[part], function.parameters[whole], axis)
    ]
    if not found:
        return None
    part, whole, axis = found[0]
    made, size = function.clone(), sizes_of(inputs[part])[axis]
    old, tensor = made.parameters[part], made.parameters[whole]
    dims = [*tensor_type(tensor).shape]
    dims[axis] = size
    named = zip(map(symbol_name, tensor_type(old).shape), dims)
    sizes: dict[str, Dim] = {name: dim for name, dim in named if name is not None and name != symbol_name(dim)}
    for load in [user for user in old.users if isinstance(user, ops.Load)]:
        load.set_field("tensor", tensor)
        load.set_field("indices", (*load.indices[:axis], Slice(0, size), *load.indices[axis + 1 :]))
    made.body.arguments.remove(old)
    substitute_symbols(made, sizes)
    return made, [value for number, value in enumerate(inputs) if number != part]


def _shorter_axis(part: Value, whole: Value) -> int | None:
    """The axis along which a view is the first elements of another one, and the same along all others."""
    views = [view_of_value(value) for value in (part, whole)]
    first, second = views
    if part is whole or first is None or second is None or first.buffer is not second.buffer:
        return None
    pairs = list(zip(first.place.shape, second.place.shape))
    apart = [axis for axis, (size, all_) in enumerate(pairs) if size != all_]
    if first.place.offset != second.place.offset or len(first.place.shape) != len(second.place.shape):
        return None
    strides = zip(first.place.strides, second.place.strides, first.place.shape)
    if any(one != two for one, two, size in strides if size != 1) or len(apart) != 1:
        return None
    return apart[0] if 1 < pairs[apart[0]][0] < pairs[apart[0]][1] else None


def _is_loaded_beside(part: Value, whole: Value, axis: int) -> bool:
    """Whether all that is read of a tensor is loaded beside the same places of another one, whole along an axis."""
    if not part.users or len(tensor_type(part).shape) != len(tensor_type(whole).shape):
        return False
    if not all(isinstance(user, ops.Load) and user.tensor is part for user in part.users):
        return False
    loads = [user for user in part.users if isinstance(user, ops.Load)]
    others = [user for user in whole.users if isinstance(user, ops.Load) and user.tensor is whole]
    return all(
        isinstance(load.indices[axis], Whole) and any(_same_places(load, other) for other in others) for load in loads
    )


def _same_places(load: ops.Load, other: ops.Load) -> bool:
    pairs = list(zip(load.indices, other.indices))
    same = [one is two if isinstance(one, Value) or isinstance(two, Value) else one == two for one, two in pairs]
    return load.parent is other.parent and load.other is None and other.other is None and all(same)
