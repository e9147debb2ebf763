"""What the GPU form demands of ops and types: which ops there are, where they stand, and what a launch can run.

`layout_rules` says how the layouts of an op's operands and results go together.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TypeVar

from tiledsl.ir import tile_ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.gpu.access_rules import layout_in_buffer
from tiledsl.ir.gpu.async_ops import Role, Turn
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.shared_layouts import Access, access_turns, vector_elements
from tiledsl.ir.layouts.sort_plans import plan_sort
from tiledsl.ir.legality import IllegalError, demand, named
from tiledsl.ir.types import AxisType, Shape, TensorType, TileType, format_shape

TILE_OPS: tuple[type[Op], ...] = (
    tile_ops.Constant, tile_ops.Size, tile_ops.Empty, tile_ops.Return, tile_ops.Yield,
    tile_ops.Map, tile_ops.Cast, tile_ops.Broadcast, tile_ops.Reshape, tile_ops.Transpose,
    tile_ops.For, tile_ops.While, tile_ops.If, tile_ops.Random, tile_ops.Print, tile_ops.Assert,
)  # fmt: skip
"""The ops of the TILE vocabulary that GPU form has too."""
AnyOp = TypeVar("AnyOp", bound=Op)
MAX_THREADS = 1024
"""Of one block, on every NVIDIA GPU."""
MAX_CLUSTER = 16
VECTOR_BYTES = 16
"""The widest access of memory by one thread."""


def launch_around(op: Op) -> gpu_ops.Launch | None:
    """The launch that an op stands in, itself left out."""
    return _around(op, gpu_ops.Launch)


def role_around(op: Op) -> Role | None:
    """The role that an op stands in, itself left out."""
    return _around(op, Role)


def turn_barriers(op: Op) -> frozenset[int]:
    """The named barriers by which warpgroups take turns, somewhere inside of an op."""
    turns = [(inner, role_around(inner)) for inner in op.walk() if isinstance(inner, Turn)]
    return frozenset(
        turn.id + number for turn, role in turns if role is not None for number in range(role.threads // WARPGROUP)
    )


def _around(op: Op, kind: type[AnyOp]) -> AnyOp | None:
    block = op.parent
    while block is not None and block.parent is not None:
        if isinstance(block.parent, kind):
            return block.parent
        block = block.parent.parent
    return None


def threads_around(op: Op) -> tuple[int, int]:
    """How many threads of each block do what `op` says, those of its role or all, and how many blocks there are."""
    launch, role = launch_around(op), role_around(op)
    assert launch is not None
    return (launch if role is None else role).threads, launch.cluster


def is_gpu_op(op: Op) -> None:
    """Only ops of the GPU vocabulary, and those of the TILE vocabulary that GPU form has."""
    known = op.name.startswith("gpu.") or isinstance(op, TILE_OPS)
    demand(known, "is no op of GPU form", "see ir/gpu/gpu_ops.py for what there is")


def stands_where_it_may(op: Op) -> None:
    """Launches stand in the function itself; what threads do, inside of a launch."""
    launch = launch_around(op)
    if isinstance(op, gpu_ops.Launch):
        nested = op.parent is not None and op.parent.parent is not None
        demand(not nested, "stands inside of another op", "a launch stands in the body of the function itself")
    elif op.name.startswith("gpu."):
        demand(launch is not None, "stands outside of a launch", "only a `gpu.launch` has threads and shared memory")
    elif isinstance(op, tile_ops.Empty):
        demand(launch is None, "makes a tensor inside of a launch", "make it before the launch")


# Types


def tiles_are_laid_out(op: Op) -> None:
    """Every tile, result or argument of a body, has a known shape and a layout of it for the threads around it."""
    launch, role = launch_around(op), role_around(op)
    inside = op if isinstance(op, gpu_ops.Launch) else launch
    for body in op.bodies.values():
        for argument in body.arguments:
            _check_type(argument, inside, role)
    for value in op.results:
        _check_type(value, launch, role)


def _check_type(value: Value, launch: gpu_ops.Launch | None, role: Role | None) -> None:
    type_ = value.type
    if isinstance(type_, TensorType):
        return
    if isinstance(type_, AxisType):
        raise IllegalError(f"{named(value)} is a block of an axis", "GPU form has the first coordinate in its place")
    if not type_.shape:
        if type_.level is not None or type_.layout is not None:
            raise IllegalError(
                f"the scalar {named(value)} has a level or a layout", "leave them out: all threads have it"
            )
        return
    if launch is None:
        raise IllegalError(f"makes the tile {named(value)} outside of a launch", "only a `gpu.launch` has threads")
    whose = "launch" if role is None else "role"
    problem = _problem_of_type(type_, (launch if role is None else role).threads * launch.cluster, whose)
    if problem:
        raise IllegalError(f"{named(value)} {problem}", f"give it a layout of its shape for the threads of its {whose}")


@lru_cache(maxsize=4096)
def _problem_of_type(type_: TileType, threads: int, whose: str) -> str:
    """What is wrong with the type of a tile (of rank 1 at least), if anything is."""
    shape, layout = type_.shape, type_.layout
    if not all(isinstance(dim, int) and dim > 0 for dim in shape):
        return f"has the shape {format_shape(shape)}, which is not known"
    if type_.level == "register" and isinstance(layout, RegisterLayout):
        if layout.shape != shape:
            return f"has the shape {format_shape(shape)}, but its layout places {list(layout.shape)}"
        if layout.threads != threads:
            return f"is laid out for {layout.threads} threads, but its {whose} has {threads}"
        return ""
    if type_.level == "shared" and isinstance(layout, SharedLayout):
        if sorted(layout.order) != list(range(len(shape))):
            return f"has the rank {len(shape)}, but its layout orders {len(layout.order)} axes"
        return ""
    if type_.level is None:
        return "has no level"
    return f"has no layout of {'registers' if type_.level == 'register' else 'shared memory'}"


# Launches and accesses: what threads can do


def threads_can_run(op: Op) -> None:
    """Numbers of threads, vectors, buffers and groups are such as there are."""
    if op.name.startswith("tile."):
        return
    match op:
        case gpu_ops.Launch():
            _check_launch(op)
        case gpu_ops.Buffer():
            _check_buffer(op)
        case gpu_ops.View():
            source = op.buffer.tile.layout
            for layout in (source, op.layout):
                plain = isinstance(layout, SharedLayout) and layout.is_plain
                demand(plain, "views a buffer that is padded, swizzled or cut", "both layouts must be plain")
        case gpu_ops.Load():
            if op.shape:
                shared = min(op.repeat, op.vector)
                _check_vector(op.vector, op.result.layout, op.result.dtype, shared)
        case gpu_ops.Store():
            if op.value.shape:
                _check_vector(op.vector, op.value.layout, op.value.dtype)
        case gpu_ops.Copy():
            _check_copy(op)
        case gpu_ops.Read():
            if op.shape:
                _check_shared(op, op.result.layout)
        case gpu_ops.Write():
            _check_block(op)
            if op.value.shape:
                _check_shared(op, op.value.layout)
        case gpu_ops.Atomic():
            demand(bool(op.value.shape), "combines a scalar", "broadcast it to a tile of one element")
        case gpu_ops.Combine():
            layout = op.buffer.tile.layout
            plain = isinstance(layout, SharedLayout) and layout.is_plain
            demand(bool(op.value.shape), "combines a scalar", "broadcast it to a tile of one element")
            demand(plain, "combines into a buffer that is padded, swizzled or cut", "its layout must be plain")
        case gpu_ops.Wait():
            demand(op.groups >= 0, f"leaves {op.groups} groups", "0 waits for all copies")
        case gpu_ops.Reduce():
            _check_scratch(op, op.sources[0], op.axes)
        case gpu_ops.Scan():
            _check_scratch(op, op.sources[0], (op.axis,))
        case gpu_ops.Sort():
            _check_scratch(op, op.source, (op.axis,))
            planned = plan_sort(op.source.layout, op.axis, threads_around(op)[0])
            problem = f"threads have no runs of powers of two along axis {op.axis} of {op.source.layout}"
            demand(planned is not None, problem, "lay it out by `sort_layout`")
        case _:
            pass


def _check_block(op: gpu_ops.Write) -> None:
    """What is written to the memory of another block is a tile, and there is such a block."""
    _, cluster = threads_around(op)
    demand(-1 <= op.block < cluster, f"writes to block {op.block} of {cluster}", "-1 is each thread's own block")
    plain = op.block < 0 or (bool(op.value.shape) and op.method == "plain")
    demand(plain, "writes a scalar or matrices to another block", "write a tile by the method `plain`")


def _check_launch(op: gpu_ops.Launch) -> None:
    whole = 0 < op.threads <= MAX_THREADS and op.threads % 32 == 0
    demand(whole, f"has {op.threads} threads", f"a block has whole warps: a multiple of 32, at most {MAX_THREADS}")
    demand(0 < op.cluster <= MAX_CLUSTER, f"has clusters of {op.cluster}", f"1 to {MAX_CLUSTER} blocks are a program")
    demand(op.raster > 0, f"walks {op.raster} rows together", "1 walks them one by one")
    demand(op.resident > 0, f"shares a multiprocessor among {op.resident} blocks", "1 has one for itself")
    demand(all(block > 0 for block in op.blocks), f"has the blocks {list(op.blocks)}", "blocks are of at least 1")


def _check_buffer(op: gpu_ops.Buffer) -> None:
    assert isinstance(op.layout, SharedLayout)
    swizzle = op.layout.swizzle
    whole = swizzle is None or 1 << swizzle.base >= op.dtype.bytes
    demand(whole, f"cuts elements of {op.dtype.bytes} bytes by its swizzle", "give the swizzle a higher base")
    panel, columns = op.layout.panel, op.shape[op.layout.order[-1]]
    even = not panel or columns % panel == 0
    demand(even, f"cuts {columns} elements into panels of {panel}", "take a divisor, or no panels")
    if op.offset < 0:
        return
    alignment, size = op.layout.alignment, op.layout.bytes(op.shape, op.dtype)
    aligned = op.offset % alignment == 0
    demand(aligned, f"stands at byte {op.offset}", f"its layout asks for a multiple of {alignment}")
    launch = launch_around(op)
    assert launch is not None
    fits = op.offset + size <= launch.shared_bytes
    problem = f"ends at byte {op.offset + size} of the {launch.shared_bytes} that the launch has"
    demand(fits, problem, "correct `shared_bytes` of the launch")


def _check_copy(op: gpu_ops.Copy) -> None:
    layout, dtype = op.layout, op.buffer.dtype
    fits = isinstance(layout, RegisterLayout) and layout.shape == op.shape
    demand(fits, f"copies {list(op.shape)} by the layout {layout}", "give it a register layout of that shape")
    assert isinstance(layout, RegisterLayout)
    threads = prod(threads_around(op))
    demand(layout.threads == threads, f"copies by {layout.threads} threads of {threads}", "its layout places them all")
    width = op.vector * dtype.bytes
    demand(width in (4, 8, 16), f"copies {width} bytes at a time", "asynchronous copies are of 4, 8 or 16 bytes")
    _check_shared(op, layout)


def _check_shared(op: gpu_ops.Copy | gpu_ops.Read | gpu_ops.Write, layout: RegisterLayout) -> None:
    """The buffer's layout allows for the access: vectors are side by side, and aligned; rows of matrices too."""
    buffer = op.buffer.tile
    shared, shape = buffer.layout, _static(buffer.shape)
    assert isinstance(shared, SharedLayout)
    if not isinstance(op, gpu_ops.Copy) and op.method != "plain":
        access = Access(layout, op.places, "matrix" if op.method == "matrix" else "matrix-transposed")
        problem = f"lanes do not hold rows of 16 bytes of {buffer} in {layout}"
        demand(access_turns(access, shared, shape, buffer.dtype) is not None, problem, "take the method `plain`")
        return
    _check_vector(op.vector, layout, buffer.dtype)
    _, cluster = threads_around(op)
    part = layout_in_buffer(layout, op.places, buffer, cluster)
    most = vector_elements(part, shared, shape, buffer.dtype, op.places)
    problem = f"takes {op.vector} elements at once, of which {most} are side by side and aligned in {buffer}"
    demand(op.vector <= most, problem, f"take {most} at once, or another layout of the buffer")


def _static(shape: Shape) -> tuple[int, ...]:
    return tuple(dim for dim in shape if isinstance(dim, int))


def _check_vector(vector: int, layout: RegisterLayout, dtype: DType, shared: int = 1) -> None:
    """`shared`: how many slots of a vector have one element."""
    last = layout.slot_digits[-1] if layout.slot_digits else None
    run = last.size if last is not None and last.stride == 1 else 1
    fits = vector > 0 and run % vector == 0
    problem = f"takes {vector} elements at once, but a thread has {run} neighbours in consecutive slots"
    demand(fits, problem, "take a divisor of that many")
    width = vector // shared * dtype.bytes
    narrow = width <= VECTOR_BYTES and width & (width - 1) == 0
    demand(vector == 1 or narrow, f"takes {width} bytes at once", f"take 1, 2, 4, 8 or {VECTOR_BYTES}")


def _check_scratch(op: gpu_ops.Reduce | gpu_ops.Scan | gpu_ops.Sort, source: Value, axes: tuple[int, ...]) -> None:
    crosses = source.layout.crosses(axes, 32)
    demand(op.buffer is not None or not crosses, "crosses warps without a buffer", "give it one of `scratch_bytes`")
    if op.buffer is not None:
        demand(op.buffer.tile.level == "shared", f"{named(op.buffer)} is no buffer", "give it one in shared memory")
