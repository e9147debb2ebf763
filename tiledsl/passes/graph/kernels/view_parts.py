"""Parameters of a group that are parts of others: a kernel that has both reads one tensor.

    %v = graph.slice(%k) {stops = [16, 8192, 512]}
    %o = graph.call(%q, %k, %v) {callee = attention}       =>       %o = graph.call(%q, %k) {callee = attention}

What a program loads of it are the first columns of the other one, `k[b, j, 0:512]`. Only where both are multiplied in
the same loop: there one load brings both on machines that load ahead (`passes/gpu/products/load_parts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.strided_views import reshaped
from tiledsl.passes.graph.analysis.views import View, view_of_value
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan

_TURNED = (ops.Transpose, ops.Reshape)
Parts = tuple[tuple[int, int], ...]
"""The number of a parameter, and that of the one which it is a part of."""


def parts_of_parameters(plan: KernelPlan, inputs: Sequence[Value]) -> Parts:
    """Which parameters of a group are the first elements of others along one axis, where it is given these inputs."""
    if plan.flat is not None:
        return ()
    numbers = [n for n, parameter in enumerate(plan.outlined.function.parameters) if _is_multiplied(parameter)]
    views = {number: view_of_value(inputs[number]) for number in numbers} if len(numbers) > 1 else {}
    found: dict[int, int] = {}
    for part in views:
        wholes = (whole for whole in views if whole not in found and _is_part(plan, views, part, whole))
        whole = next(wholes, None)
        if whole is not None:
            found[part] = whole
    return tuple((part, whole) for part, whole in found.items() if whole not in found)


def _is_part(plan: KernelPlan, views: Mapping[int, View | None], part: int, whole: int) -> bool:
    first, second = views[part], views[whole]
    if part == whole or first is None or second is None or first.buffer is not second.buffer:
        return False
    parameters = [plan.outlined.function.parameters[number] for number in (part, whole)]
    axes, others = (plan.axes.kept[parameter] for parameter in parameters)
    places = [reshaped(view.place, [a.size for a in kept]) for view, kept in ((first, axes), (second, others))]
    if None in places or len({(place.offset, place.strides) for place in places if place is not None}) > 1:
        return False
    apart = [(axis, other) for axis, other in zip(axes, others) if axis is not other]
    shorter = len(apart) == 1 and apart[0][0].size < apart[0][1].size
    return shorter and any(axis in plan.treatments.streamed for axis in axes if axis in others)


def _is_multiplied(value: Value) -> bool:
    """Whether products alone take a value, perhaps transposed."""
    return all(
        isinstance(user, ops.Contract) or (isinstance(user, _TURNED) and _is_multiplied(user.result))
        for user in value.users
    )
