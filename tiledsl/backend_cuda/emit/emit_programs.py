"""The frame of a kernel: from the number of its block of threads to the coordinates of its program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.frame.writer import Writer
from tiledsl.backend_cuda.functions.casts import bits
from tiledsl.backend_cuda.functions.index_text import operand_text
from tiledsl.backend_cuda.functions.scalars import memory_type
from tiledsl.backend_cuda.functions.storage import Scalar
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.symbolic import Dim, ceildiv
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.sizes import size_of

_FILL_BYTES = 16
_FILL_PIECES = 4
"""How many pieces a thread of a fill writes."""


def emit_launch(frame: KernelFrame, op: Launch, body: Callable[[KernelFrame, Block], None]) -> Dim | None:
    """The programs of a launch; how many there are, if that is told by sizes."""
    frame.writer = Writer(1)
    frame.comment(op.location)
    frame.has_roles = any(isinstance(inner, Role) for inner in op.body.ops)
    sizes = [size_of(stop) for stop in op.stops]
    number = "blockIdx.x" if op.cluster == 1 else f"blockIdx.x / {op.cluster}"
    if all(size is not None for size in sizes):
        # the first axis has what the others leave
        counts = ["", *(_block_count(frame, stop, block) for stop, block in zip(op.stops[1:], op.blocks[1:]))]
        if op.raster > 1 and len(op.stops) == 2:
            counts[0] = _block_count(frame, op.stops[0], op.blocks[0])
        program = number if len(counts) == 1 and op.cluster == 1 else frame.define("unsigned", "program", number)
        _bind_coordinates(frame, op, program, counts[: len(op.stops)])
        frame.program_number = program
        body(frame, op.body)
        total: Dim = 1
        for size, block in zip(sizes, op.blocks):
            total = total * ceildiv(size if size is not None else 0, block)
        return total
    counts = [_block_count(frame, stop, block) for stop, block in zip(op.stops, op.blocks)]
    total_text = frame.define("unsigned", "programs", " * ".join(counts))
    step = "gridDim.x" if op.cluster == 1 else f"gridDim.x / {op.cluster}"
    program = frame.names.fresh("program")
    frame.wait_before(op)
    frame.line("#pragma unroll 1")
    frame.nesting += 1
    with frame.block(f"for (unsigned {program} = {number}; {program} < {total_text}; {program} += {step})"):
        _bind_coordinates(frame, op, program, counts)
        frame.program_number = program
        body(frame, op.body)
        _end_program(frame)
    frame.nesting -= 1
    return None


def _end_program(frame: KernelFrame) -> None:
    """What has to be done before the block goes on to another program: its memory is to serve anew."""
    if frame.mbarriers and frame.cluster > 1:
        frame.line(f"{frame.use('cluster_barrier')}();")
    elif frame.uses_shared:
        frame.line("__syncthreads();")
    for offset, count in frame.mbarriers:
        call = f"{frame.use('end_mbarriers')}({frame.shared_base} + {offset}, {count});"
        frame.line(f"if (threadIdx.x == 0) {call}")


def _block_count(frame: KernelFrame, stop: Value, block: int) -> str:
    """How many blocks an axis has, as a variable."""
    size = size_of(stop)
    if isinstance(size, int):
        return str(-(-max(size, 0) // block))

    def make() -> str:
        text = frame.scalar(stop)
        count = text if block == 1 else f"({text} + {block - 1}) / {block}"
        if size is None:
            count = f"{frame.use('larger')}({count}, 0)"
        return frame.define("unsigned", of_program(stop.name, "blocks"), count)

    return frame.once(("blocks", stop, block), make)


def _bind_coordinates(frame: KernelFrame, op: Launch, program: str, counts: Sequence[str]) -> None:
    """Program numbers count along the last axis first; with a raster, along that many rows of blocks at once."""
    numbers: list[str] = []
    rest, outer = program, list(counts)
    if op.raster > 1 and len(counts) >= 2:
        rest, row, column = _rastered(frame, op.raster, program, counts)
        numbers = [column, row]
        outer = outer[:-2]
    while outer:
        count = outer.pop()
        numbers.append(f"{rest} % {count}" if outer else rest)
        rest = f"{rest} / {count}" if outer else rest
    for argument, block, number in zip(op.body.arguments, op.blocks, reversed(numbers)):
        wide = f"(long long){operand_text(number)}"
        name = frame.define(
            "long long", of_program(argument.name or "start"), wide if block == 1 else f"{wide} * {block}"
        )
        frame.values[argument] = Scalar(name, i64)


def _rastered(frame: KernelFrame, raster: int, program: str, counts: Sequence[str]) -> tuple[str, str, str]:
    """What of a program number is left for the outer axes, and the numbers of the blocks along the last two."""
    rows, columns = counts[-2:]
    rest, inner = "0", program
    if len(counts) > 2:
        rest = f"{program} / ({rows} * {columns})"
        inner = frame.define("unsigned", "inner", f"{program} % ({rows} * {columns})")
    band = frame.define("unsigned", "band", f"{inner} / ({raster} * {columns}) * {raster}")
    height = frame.define("unsigned", "band_rows", f"min({raster}u, {rows} - {band})")
    within = frame.define("unsigned", "within", f"{inner} % ({raster} * {columns})")
    return rest, f"{band} + {within} % {height}", f"{within} / {height}"


def emit_single(frame: KernelFrame, phase: Sequence[Op], emit: Callable[[KernelFrame, Op], None]) -> Dim | None:
    """A kernel for effects that stand between launches."""
    frame.writer = Writer(1)
    frame.program_number = "0"
    if isinstance(phase[0], Empty):
        return _emit_fill(frame, phase[0])
    for op in phase:
        emit(frame, op)
    return 1


def _emit_fill(frame: KernelFrame, op: Empty) -> Dim:
    """Each thread writes some pieces of 16 bytes, a grid of threads apart; the first few of them the elements that are
    left over."""
    type_ = op.result.type
    assert isinstance(type_, TensorType)
    assert op.fill is not None
    dtype = type_.dtype
    total: Dim = 1
    for dim in type_.shape:
        total = total * dim
    frame.comment(op.location)
    pointer = frame.tensor(op.result)
    count = frame.define("long long", "count", frame.dim(total))
    value = frame.define(memory_type(dtype), "fill", _stored(frame, frame.scalar(op.fill), dtype))
    per = _FILL_BYTES // dtype.bytes
    first = frame.define("long long", "first", "(long long)blockIdx.x * blockDim.x + threadIdx.x")
    step = frame.define("long long", "step", "(long long)gridDim.x * blockDim.x")
    with frame.block(f"struct alignas({_FILL_BYTES}) Piece", "};"):
        frame.line(f"{memory_type(dtype)} elements[{per}];")
    piece = frame.names.fresh("piece")
    frame.line(f"Piece {piece};")
    with frame.unrolled("e", per) as e:
        frame.line(f"{piece}.elements[{e}] = {value};")
    with frame.block(f"for (long long p = {first}; p < {count} / {per}; p += {step})"):
        frame.line(f"reinterpret_cast<Piece*>({pointer})[p] = {piece};")
    with frame.block(f"if ({first} < {count} % {per})"):
        frame.line(f"{pointer}[{count} - 1 - {first}] = {value};")
    return ceildiv(total, frame.threads * per * _FILL_PIECES)


def _stored(frame: KernelFrame, value: str, dtype: DType) -> str:
    return bits(value, dtype, frame.preamble) if dtype.bits < 32 else value
