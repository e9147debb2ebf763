"""Whether a set of ops can be one kernel, and how it would go through its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.passes.graph.analysis.axes import AxesError, Axis, GroupAxes, group_axes
from tiledsl.passes.graph.analysis.limits import Limits
from tiledsl.passes.graph.analysis.online_rules import Dependence, RuleError, factors_of, moments_of
from tiledsl.passes.graph.analysis.outline import Apart, Outlined, outline, reads_padded_windows, results_of
from tiledsl.passes.graph.analysis.views import nearest_axis
from tiledsl.passes.graph.kernels.treatments import TreatmentError, Treatments, contracts_of, treatments_of


@dataclass(frozen=True)
class FlatWindows:
    """All positions of windows as one axis (`flat_windows.py`), or all rows of a matrix whose product's are apart.

    `image`: the parameter whose windows are read, if any. `joined`: that axis, of those in `rows`: of images (of one
    element if there is one image), then of positions. `inner`: those within windows, which a loop goes through with
    blocks of so many (`depth`) `channels`. `group`: of which a program has one; then `image` has the channels of all
    groups as one axis, `all_channels`. `counts_images`: whether `rows` begin with images; else a program is of one.
    `apart`: values beside the image whose rows strides cannot tell as one, so that each row has a coordinate along
    each of their axes. `planes`: of which the image has several (f32 by planes); then it has `all_images`, those of
    all planes one behind the other, in place of these and of `images` (None for one). `places`: those of windows as
    one axis of the `weights`, where these have more axes than TMA knows. `rows_are_numbers`: whether the program has
    the sizes of `rows` as numbers, and so knows that coordinates along them are within. `together`: short axes that are
    summed, which are one axis, `depth_axis`, of tiles that are multiplied.
    """

    image: Value | None
    joined: Axis
    rows: tuple[Axis, ...]
    inner: tuple[Axis, ...] = ()
    channels: Axis | None = None
    depth: int = 0
    group: Axis | None = None
    all_channels: Axis | None = None
    counts_images: bool = True
    apart: frozenset[Value] = frozenset()
    planes: Axis | None = None
    images: Axis | None = None
    all_images: Axis | None = None
    weights: Value | None = None
    places: Axis | None = None
    rows_are_numbers: bool = False
    together: tuple[Axis, ...] = ()
    depth_axis: Axis | None = None


@dataclass(frozen=True)
class KernelPlan:
    """A set of ops as a function, with the axes and the way through them."""

    outlined: Outlined
    axes: GroupAxes
    treatments: Treatments
    flat: FlatWindows | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a set of ops is not one kernel, and the op that stands in the way (if one does)."""

    op: Op | None
    reason: str


def plan_kernel(members: Sequence[Op], limits: Limits, name: str = "group") -> KernelPlan | Refusal:
    """A plan for ops of a graph, in its order, or why there is none."""
    results = results_of(members)
    refusal: Refusal | None = None
    missing: Refusal | None = None
    slides = any(reads_padded_windows(op) for op in members)
    ways: tuple[Apart, ...] = ("together", "products", "all")
    for slide, apart in product((True, False) if slides else (False,), ways):
        outlined = outline(name, members, results, apart, slide=slide)
        try:
            return _with_fewer_parameters(_planned(outlined, limits))
        except RuleError as error:  # what would be missing says more than what stands in another way
            refusal = missing = Refusal(error.op, error.reason)
        except (AxesError, TreatmentError) as error:
            refusal = missing or Refusal(error.op, error.reason)
    assert refusal is not None
    return refusal


def plan_function(outlined: Outlined, limits: Limits) -> KernelPlan:
    """The plan of a function that was found to be one kernel."""
    return _planned(outlined, limits)


def _planned(outlined: Outlined, limits: Limits) -> KernelPlan:
    function = outlined.function
    axes = group_axes(function)
    nearest = [nearest_axis(value) for value in outlined.inputs]
    treatments = treatments_of(function, axes, limits, nearest)
    _check_streams(function, axes, treatments)
    return KernelPlan(outlined, axes, treatments)


def _with_fewer_parameters(plan: KernelPlan) -> KernelPlan:
    """One parameter for all that are one value along the same axes."""
    outlined = plan.outlined
    function = outlined.function
    known: dict[object, Value] = {}
    inputs: list[Value] = []
    for parameter, value in zip(list(function.parameters), outlined.inputs):
        gathered = any(isinstance(user, ops.Gather) and user.source is parameter for user in parameter.users)
        first = known.setdefault((value, plan.axes.kept[parameter], parameter if gathered else None), parameter)
        if first is parameter:
            inputs.append(value)
        else:
            parameter.replace_with(first)
            function.body.arguments.remove(parameter)
    return replace(plan, outlined=replace(outlined, inputs=tuple(inputs)))


def _check_streams(function: Function, axes: GroupAxes, treatments: Treatments) -> None:
    """Raises RuleError where a fold over a streamed axis depends on another one and no rule says how it follows."""
    earlier: list[Value] = []
    for op in function.body.ops:
        if not isinstance(op, (ops.Reduce, ops.Contract)) or not treatments.streamed & set(axes.reduced[op]):
            continue
        if isinstance(op, ops.Reduce) and op.fn in ("argmax", "argmin"):
            raise RuleError(op, f"`{op.fn}` over a streamed axis")
        moving = earlier if treatments.fed or not contracts_of(function) else []
        moments = moments_of(op)
        if moments is None or moments.total not in moving or Dependence(frozenset(moving)).of(moments.source):
            factors_of(op, Dependence(frozenset(moving)))
        earlier.append(op.result)
