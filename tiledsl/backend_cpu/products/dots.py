"""Dots: packs their operands for the micro-kernel, finds the accumulator, calls the product."""

from __future__ import annotations

from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.products.microkernel import Microkernel, dot_function, microkernel_for, row_stride
from tiledsl.backend_cpu.products.streamed_dots import few_side
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.expressions import Leaf, expression_ops, leaves
from tiledsl.backend_cpu.values.storage import Buffer, PackedLeft, PackedRight, dot_product, groups_of
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import compute_dtype, f32
from tiledsl.ir.symbolic import Dim

CHUNK = 1024
"""Bytes along k of a packed row where the depth has no small bound: 8 rows of A and 48 columns of B of so many are 56
KiB, whatever the elements."""
LONGEST_CHUNK = 2048


def kernel_of(context: Context, op: ops.Dot) -> Microkernel:
    """The micro-kernel of a dot: in the accumulator's dtype."""
    return microkernel_for(context.machine, compute_dtype(op.dtype), op.a.dtype, op.b.dtype)


def chunk_of(context: Context, depth: Dim, kernel: Microkernel) -> int:
    """The row length of a packed left operand whose depth is `depth`."""
    limit, size = context.static_limit(depth), f32.bytes // kernel.group
    if limit is None or limit > LONGEST_CHUNK // size:
        return CHUNK // size
    return max(context.lanes, -(-limit // context.lanes) * context.lanes)


def allocate_left(context: Context, value: Value, kernel: Microkernel) -> PackedLeft:
    """Room for a packed left operand."""
    writer = context.writer
    *batch, rows, depth = value.shape
    chunk = chunk_of(context, depth, kernel)
    stride = row_stride(kernel, chunk)
    limit = context.static_limit(depth)
    with writer.in_entry():
        rows_limit = o.round_up(writer, context.limit(rows), kernel.rows)
        one_chunk = o.multiply(writer, rows_limit, str(stride))
        chunks = o.ceil_divide(writer, context.limit(depth), str(chunk))
        single = limit is not None and limit <= chunk
        matrix = one_chunk if single else o.multiply(writer, one_chunk, o.larger(writer, chunks, "1"))
        strides, total = _batches(context, batch, matrix)
        base = context.allocate_bytes(o.multiply(writer, total, str(kernel.left.bytes)))
    single_chunk = "0" if single else one_chunk
    return PackedLeft(base, chunk, stride, single_chunk, strides, kernel.left, turns_signs=kernel.bytes is not None)


def packed_through(context: Context, op: ops.Reshape) -> bool:
    """Whether dots alone read a tile of another shape, and can pack it from what it is of, several axes as one."""
    groups = groups_of(op.source.shape, op.result.shape)
    if groups is None or all(len(group) == 1 for group in groups) or not op.result.users:
        return False
    for user in op.result.users:
        if not isinstance(user, ops.Dot) or op.result is user.acc or few_side(context, user) is not None:
            return False
        kernel = kernel_of(context, user)
        if op.result is user.b and (len(groups[-1]) > 1 or kernel.grouped is not None):
            return False  # panels of columns would cut rows of the innermost axis
        depth = context.static_limit(user.a.shape[-1])
        if kernel.bytes is not None or depth is None or depth > LONGEST_CHUNK // f32.bytes:
            return False
    return True


def allocate_right(context: Context, value: Value, kernel: Microkernel) -> PackedRight:
    """Room for a packed right operand."""
    writer = context.writer
    *batch, depth, columns = value.shape
    with writer.in_entry():
        limit = o.round_up(writer, context.limit(columns), kernel.lanes)
        matrix = o.multiply(writer, limit, o.round_up(writer, context.limit(depth), kernel.group))
        strides, total = _batches(context, batch, matrix)
        base = context.allocate_bytes(o.multiply(writer, total, str(kernel.right.bytes)))
    width = o.round_up(writer, context.dim(columns), kernel.lanes)
    rows = o.round_up(writer, context.dim(depth), kernel.group)
    return PackedRight(base, kernel.panel, rows, width, strides, kernel.right)


def _batches(context: Context, batch: list[Dim], matrix: str) -> tuple[tuple[str, ...], str]:
    """The strides of the batch axes over matrices of that many elements, and the whole size."""
    strides: list[str] = []
    total = matrix
    for dim in reversed(batch):
        strides.insert(0, total)
        total = o.multiply(context.writer, total, context.limit(dim))
    return tuple(strides), total


def accumulates_in_place(context: Context, op: ops.Dot) -> Value | None:
    """The carried tile whose buffer the dot may add to, because nobody reads its old value any more.

    Either the accumulator is that tile itself, or an elementwise expression of it (`acc * alpha`), which is then
    evaluated into the same buffer first.
    """
    acc = op.acc
    if acc is None:
        return None
    if acc in context.storage or acc in context.fresh:
        alone = acc in context.owned and set(acc.users) == {op}
        return acc if alone and is_of_this_turn(op, acc) else None
    inside = set(expression_ops(context, acc))
    if any(user is not op and user not in inside for here in inside for user in here.result.users):
        return None
    read = list(leaves(context, acc))
    for leaf in read:
        value = leaf.value
        private = value in context.owned and value not in context.fresh and set(value.users) <= inside
        if not (private and leaf.aligned and is_of_this_turn(op, value)):
            continue
        if value.shape == acc.shape and Leaf(value, not leaf.aligned) not in read:
            return value
    return None


def is_of_this_turn(op: Op, value: Value) -> bool:
    """Whether the innermost loop around an op is the one that carries a value: loops between would read it again."""
    block = op.parent
    while block is not None and value not in block.arguments:
        around = block.parent
        block = around.parent if isinstance(around, ops.If) else None
    return block is not None


def call_dot(context: Context, op: ops.Dot, left: PackedLeft, right: PackedRight, target: Buffer, fresh: str) -> None:
    """Adds the product to `target` (or overwrites it, if the i1 `fresh` says so), batch by batch."""
    kernel = kernel_of(context, op)
    *batch, rows, depth = op.a.shape
    columns = op.b.shape[-1]
    name = dot_function(context.writer.module, kernel, left.chunk)
    sizes = [context.dim(d) for d in (rows, columns, depth)]

    def product(axes: list[Dim], indices: tuple[str, ...]) -> None:
        if axes:
            with context.writer.loop("0", context.dim(axes[0])) as index:
                product(axes[1:], (*indices, index))
            return
        writer = context.writer
        bases = [
            o.element_pointer(writer, storage.base, dot_product(context.writer, indices, strides), storage.dtype)
            for storage, strides in (
                (left, left.batch_strides),
                (right, right.batch_strides),
                (target, target.strides[:-2]),
            )
        ]
        writer.line(
            f"call void @{name}(ptr {bases[0]}, i64 {left.chunk_stride}, ptr {bases[1]}, ptr {bases[2]}, "
            f"i64 {target.strides[-2]}, i64 {sizes[0]}, i64 {sizes[1]}, i64 {sizes[2]}, i1 {fresh})"
        )

    product(batch, ())
