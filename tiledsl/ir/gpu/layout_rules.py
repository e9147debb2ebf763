"""How the layouts of an op's operands and results go together in GPU form.

Every op works on the elements that a thread has in its slots. So what layout a result has follows from the op: that of
the operands for elementwise ops, and what the algebra of layouts gives for ops that change the shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS
from tiledsl.ir.layouts.conversions import convert_plan, slice_slots
from tiledsl.ir.layouts.layout import Digit, RegisterLayout, spatial
from tiledsl.ir.legality import IllegalError, demand, named
from tiledsl.ir.types import TileType

CONVERT = "convert one of them by `gpu.convert`, or through a buffer"


def layouts_agree(op: Op) -> None:
    """The layouts of operands and results are such as the op can work with; those of GPU ops are as inferred."""
    if op.name.startswith("gpu."):
        for value, type_ in zip(op.results, op.infer_types()):
            if value.type != type_:
                raise IllegalError(f"{named(value)} is {value.type}, but the op gives {type_}", "build it anew")
        _check_gpu(op)
    else:
        for value in op.operands:
            if isinstance(value.type, TileType) and value.type.level == "shared":
                raise IllegalError(f"{named(value)} is in shared memory", "read it into registers by `gpu.read`")
        _check_tile(op)


def _check_tile(op: Op) -> None:
    match op:
        case tile_ops.Map() | tile_ops.Cast() | tile_ops.Random():
            same_layouts((*op.operands, op.result))
        case tile_ops.Broadcast():
            _check_broadcast(op)
        case tile_ops.Reshape():
            _check_reshape(op)
        case tile_ops.Transpose():
            expected = op.source.layout.permuted(op.permutation) if op.source.shape else None
            _require_layout(op.result, expected)
        case tile_ops.For():
            carried_alike(op.initial, op.body.arguments[1:], _yielded(op, "body"), op.results)
        case tile_ops.While():
            carried_alike(op.initial, op.condition.arguments, op.body.arguments, _yielded(op, "body"), op.results)
        case tile_ops.If():
            carried_alike(_yielded(op, "then"), _yielded(op, "otherwise"), op.results)
        case _:
            pass


def same_layouts(values: Sequence[Value]) -> None:
    """All tiles among the values have one layout; scalars go with any."""
    tiles = [v for v in values if v.shape]
    for value in tiles[1:]:
        if value.tile.layout != tiles[0].tile.layout:
            raise _differ(tiles[0], value, CONVERT)


DRAWN = 4
"""Rows and columns of a layout that a message draws."""


def _differ(a: Value, b: Value, fix: str) -> IllegalError:
    problem = f"{named(a)} is laid out as {a.tile.layout}, but {named(b)} as {b.tile.layout}"
    layouts = [(value, value.tile.layout) for value in (a, b)]
    drawn = [f"{named(v)}, {layout.show(DRAWN)}" for v, layout in layouts if isinstance(layout, RegisterLayout)]
    return IllegalError(problem, fix, drawn)


def carried_alike(*groups: Sequence[Value]) -> None:
    """What goes from one iteration or branch into another has the same type everywhere."""
    for values in zip(*groups):
        first = values[0]
        for value in values[1:]:
            if value.type != first.type:  # texts are made only where there is something to say
                problem = f"{named(first)} is {first.type}, but {named(value)}, which takes its place, {value.type}"
                raise IllegalError(problem, CONVERT)


def _yielded(op: Op, body: str) -> Sequence[Value]:
    terminator = op.bodies[body].terminator
    return () if terminator is None else terminator.operands


def _require_layout(value: Value, expected: RegisterLayout | None) -> None:
    if value.tile.layout != expected:
        raise IllegalError(f"{named(value)} is laid out as {value.tile.layout}", f"the op gives {expected}")


def _check_broadcast(op: tile_ops.Broadcast) -> None:
    source, result = op.source, op.result
    if not source.shape:
        return
    new = len(result.shape) - len(source.shape)
    repeated = [new + i for i, dim in enumerate(source.shape) if dim == 1 and result.shape[new + i] != 1]
    expected = result.layout.reduced(repeated, keepdims=True).reduced(range(new))
    if source.layout != expected:
        raise _differ(source, result, f"convert the source to {expected} first")


def _check_reshape(op: tile_ops.Reshape) -> None:
    source, result = op.source, op.result
    if _joins_runs(source.tile, result.tile):
        return
    kept = [[dim for dim in value.shape if dim != 1] for value in (source, result)]
    demand(
        kept[0] == kept[1],
        "reshapes more than axes of size 1 and runs that threads have whole",
        "write it to a buffer and read a `gpu.view` of that",
    )
    if source.shape and result.shape and _without_ones(source.layout) != _without_ones(result.layout):
        raise _differ(source, result, "reshaping leaves every element where it is")


def _joins_runs(source: TileType, result: TileType) -> bool:
    """Whether two neighbouring axes become one, and threads have all of what lies along the second one."""
    parts, joined = source.layout, result.layout
    if not isinstance(parts, RegisterLayout) or not isinstance(joined, RegisterLayout) or parts.rank != joined.rank + 1:
        return False
    return any(joined.split(axis, parts.shape[axis + 1]) == parts for axis in range(joined.rank))


def _without_ones(layout: RegisterLayout) -> RegisterLayout:
    return layout.reduced([axis for axis, size in enumerate(layout.shape) if size == 1])


# GPU ops


def _check_gpu(op: Op) -> None:
    match op:
        case gpu_ops.Load() | gpu_ops.Store() | gpu_ops.Atomic() | gpu_ops.Copy():
            _check_subscripts(op)
        case gpu_ops.Write():
            _require_registers(op.value)
        case gpu_ops.Combine():
            _require_registers(op.value)
            _require_registers(op.index)
            same_layouts((op.index, op.value))
        case gpu_ops.Pad():
            _require_registers(op.source)
            inside = all(0 <= axis < len(op.source.shape) for axis in op.axes)
            demand(inside, f"pads the axes {list(op.axes)} of rank {len(op.source.shape)}", "name axes of the tile")
        case gpu_ops.Convert():
            _require_registers(op.source)
            if convert_plan(op.source.layout, op.result.layout).kind == "shared":
                problem = f"{op.source.layout} and {op.result.layout} differ by more than shuffles within warps"
                raise IllegalError(
                    problem, "write it to a buffer and read that: `gpu.write`, `gpu.barrier`, `gpu.read`"
                )
        case gpu_ops.Slice():
            _require_registers(op.source)
            if slice_slots(op.source.layout, op.starts, op.result.layout, op.steps) is None:
                problem = f"threads do not hold the part in {op.result.layout}"
                raise IllegalError(problem, f"the whole is in {op.source.layout}")
        case gpu_ops.Reduce() | gpu_ops.Scan():
            for source in op.sources:
                _require_registers(source)
            same_layouts(op.sources)
        case gpu_ops.Sort():
            _require_registers(op.source)
        case gpu_ops.Mma():
            _check_mma(op)
        case _:
            pass


def _require_registers(value: Value) -> None:
    if value.shape and value.tile.level != "register":
        raise IllegalError(f"{named(value)} is in shared memory", "read it into registers by `gpu.read`")


def _check_subscripts(op: gpu_ops.Load | gpu_ops.Store | gpu_ops.Atomic | gpu_ops.Copy) -> None:
    """Tiles of coordinates are laid out as what they are coordinates of."""
    layout = op.layout if isinstance(op, (gpu_ops.Load, gpu_ops.Copy)) else op.value.tile.layout
    if not isinstance(op, (gpu_ops.Load, gpu_ops.Copy)):
        _require_registers(op.value)
    for index in op.indices:
        if index.shape and index.tile.layout != layout:
            problem = f"the subscript {named(index)} is laid out as {index.tile.layout}"
            raise IllegalError(problem, f"convert it to {layout}")


def _check_mma(op: gpu_ops.Mma) -> None:
    """Operands are whole fragments of the instruction, and every warp has what its part of the accumulator needs."""
    instruction = INSTRUCTIONS.get(op.instruction)
    if instruction is None:
        raise IllegalError(f"there is no instruction `{op.instruction}`", "known are: " + ", ".join(INSTRUCTIONS))
    a, b, acc = op.a, op.b, op.acc
    takes = instruction.takes(a.dtype, b.dtype, acc.dtype)
    demand(
        takes, f"{instruction} of {a.dtype} and {b.dtype} onto {acc.dtype}", "cast the operands, or take another one"
    )
    fragments = (instruction.a_fragment, instruction.b_fragment, instruction.accumulator_fragment)
    outer: list[RegisterLayout] = []
    for value, fragment in zip((a, b, acc), fragments):
        _require_registers(value)
        tiles = value.layout.divided(fragment)
        if tiles is None:
            raise IllegalError(f"{named(value)} is laid out as {value.layout}", f"it must end in `{fragment}`")
        outer.append(tiles)
    a_tiles, b_tiles, acc_tiles = outer
    rows, columns = acc_tiles.reduced([1]), acc_tiles.reduced([0])
    a_digits, b_digits, of_rows = a_tiles.thread_digits, b_tiles.thread_digits, a_tiles.reduced([1])
    if op.groups > 1:  # the outermost threads of all have parts of K, neighbours each
        apart = [
            tiles.thread_digits[:1] == (Digit(op.groups, axis, 1),) for axis, tiles in ((1, a_tiles), (0, b_tiles))
        ]
        problem = f"{named(a)} and {named(b)} are not laid out for {op.groups} groups of warps along K"
        demand(all(apart), problem, "see `tiled_layouts` in ir/gpu/matrix_instructions.py")
        a_digits, b_digits = a_digits[1:], b_digits[1:]
        rest = RegisterLayout(a_tiles.shape, a_digits, a_tiles.slot_digits)
        of_rows = spatial(op.groups) * rest.reduced([1])
    whole = all(d.axis != 1 for d in a_digits) and all(d.axis != 0 for d in b_digits)
    fits = whole and of_rows == rows and b_tiles.reduced([0]) == columns
    problem = f"a warp does not have the rows of {named(a)} and columns of {named(b)} for its part of {named(acc)}"
    demand(fits, problem, "see `tiled_layouts` in ir/gpu/matrix_instructions.py")
