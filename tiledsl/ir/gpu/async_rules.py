"""What the GPU form demands of roles, mbarriers, copies by TMA and products by warpgroups (see `async_ops`)."""

from __future__ import annotations

from typing import Literal

from tiledsl.ir import tile_ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.gpu.async_ops import (
    BulkWait,
    Exchange,
    MbarrierArrive,
    MbarrierExpect,
    Mbarriers,
    MbarrierWait,
    NamedBarrier,
    Role,
    TmaLoad,
    TmaStore,
    Turn,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tiledsl.ir.gpu.gpu_rules import launch_around, role_around, threads_around
from tiledsl.ir.gpu.matrix_descriptors import shared_operand
from tiledsl.ir.gpu.remainders import remainder
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES, TensorMap, box_alignment, elements_of_unit, tensor_map_of
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP, WarpgroupInstruction, warpgroup_instruction
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import WARP, RegisterLayout
from tiledsl.ir.legality import IllegalError, demand, named
from tiledsl.ir.types import TileType

REGISTERS = 65536
"""Of a multiprocessor, 4 bytes each."""
REGISTER_STEP = 8
MIN_REGISTERS, MAX_REGISTERS = 24, 256
"""Of a thread, where a role says how many."""
MBARRIER_BYTES = 8
MOST_PENDING = (1 << 20) - 1
"""Arrivals of an mbarrier, and bytes that it expects."""
NAMED_BARRIERS = range(1, 16)
"""Number 0 is the block's own."""


def roles_stand_where_they_may(op: Op) -> None:
    """Roles and mbarriers stand in the body of the launch itself, roles last."""
    if not isinstance(op, (Role, Mbarriers)):
        return
    launch, block = launch_around(op), op.parent
    assert block is not None
    demand(block.parent is launch, "stands inside of another op", "it stands in the body of the launch itself")
    if isinstance(op, Mbarriers):
        demand(op.count > 0, f"makes {op.count} mbarriers", "make at least 1")
        return
    following = block.ops[block.ops.index(op) + 1 :]
    other = next((later for later in following if not isinstance(later, (Role, tile_ops.Yield))), None)
    what = "" if other is None else f"is followed by `{other.name}`"
    demand(other is None, what, "after a role only roles may follow: put it before them, or into one")


def async_work_can_run(op: Op) -> None:
    """Roles, barriers, copies and products are such as there are, and are made by threads that can make them."""
    if role_around(op) is not None:
        _check_in_role(op)
    if op.name.startswith("tile."):
        return
    match op:
        case Role():
            _check_role(op)
        case NamedBarrier():
            _check_named_barrier(op)
        case Turn():
            _check_warpgroups(op)
            _check_turn(op)
        case Mbarriers():
            _check_mbarriers(op)
        case MbarrierArrive() | MbarrierWait():
            _check_is_mbarrier(op.barriers)
        case MbarrierExpect():
            _check_is_mbarrier(op.barriers)
            whole = op.bytes > 0 and op.bytes % UNIT_BYTES == 0
            demand(whole, f"expects {op.bytes} bytes", f"copies are of multiples of {UNIT_BYTES} bytes")
            demand(op.bytes <= MOST_PENDING, f"expects {op.bytes} bytes", f"an mbarrier counts up to {MOST_PENDING}")
        case TmaLoad():
            _check_is_mbarrier(op.barriers)
            _check_copy(op)
        case TmaStore():
            _check_copy(op)
        case Exchange():
            _check_is_mbarrier(op.barriers)
            _check_exchange(op)
        case BulkWait():
            demand(op.groups >= 0, f"leaves {op.groups} groups", "0 waits for all of them")
        case WgmmaFence() | WgmmaCommit():
            _check_warpgroups(op)
        case WgmmaWait():
            _check_warpgroups(op)
            demand(op.groups >= 0, f"leaves {op.groups} groups", "0 waits for all of them")
        case Wgmma():
            _check_warpgroups(op)
            _check_product(op)
        case _:
            pass


# Roles


def _check_role(role: Role) -> None:
    launch, block = launch_around(role), role.parent
    assert launch is not None
    assert block is not None
    end = role.first + role.threads
    whole = role.first >= 0 and role.threads > 0 and role.first % WARP == 0 and role.threads % WARP == 0
    where = f"is of the threads {role.first} to {end}"
    demand(whole, where, "a role has whole warps: `first` and `threads` are multiples of 32")
    demand(end <= launch.threads, f"{where}, but its launch has {launch.threads}", "give the launch more threads")
    roles = [op for op in block.ops if isinstance(op, Role)]
    for other in roles[: roles.index(role)]:
        apart = other.first + other.threads <= role.first or end <= other.first
        problem = f"{where}, but those from {other.first} to {other.first + other.threads} have a role already"
        demand(apart, problem, "roles have threads of their own")
    _check_registers(role, launch, roles)
    if role is roles[-1]:
        _check_budget(launch, roles)


def _warpgroups(role: Role) -> range:
    """The numbers of the warpgroups of which a role has at least some warps."""
    return range(role.first // WARPGROUP, -(-(role.first + role.threads) // WARPGROUP))


def _check_registers(role: Role, launch: gpu_ops.Launch, roles: list[Role]) -> None:
    count = role.registers
    if not count:
        return
    fits = MIN_REGISTERS <= count <= MAX_REGISTERS and count % REGISTER_STEP == 0
    limits = f"{MIN_REGISTERS} to {MAX_REGISTERS} in steps of {REGISTER_STEP}, or 0 for as many as before"
    demand(fits, f"has {count} registers", f"take {limits}")
    whole = launch.threads % WARPGROUP == 0
    problem = f"has registers of its own, but its launch has {launch.threads} threads"
    demand(whole, problem, "registers are given to whole warpgroups: take a multiple of 128")
    for other in roles:
        apart = other is role or not set(_warpgroups(other)) & set(_warpgroups(role))
        problem = f"has registers of its own, but shares a warpgroup with the threads from {other.first} on"
        demand(apart, problem, "registers are given to whole warpgroups, from multiples of 128 on")


def registers_at_entry(threads: int, resident: int = 1) -> int:
    """How many registers each of the threads of a block can have when it begins, if so many blocks share them."""
    return min(REGISTERS // (threads * resident) // REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS)


def _check_budget(launch: gpu_ops.Launch, roles: list[Role]) -> None:
    """All roles together have no more registers than the block has when it begins."""
    entry = registers_at_entry(launch.threads, launch.resident)
    total = launch.threads * entry
    for role in roles:
        total += len(_warpgroups(role)) * WARPGROUP * (role.registers - entry) if role.registers else 0
    problem = f"and those before it have {total} registers, of {launch.threads * entry} that a block begins with"
    demand(total <= launch.threads * entry, problem, f"give roles {entry} on average")


def _check_in_role(op: Op) -> None:
    """Nothing in a role waits for threads outside of it, or reads what is laid out for others."""
    if isinstance(op, gpu_ops.Barrier):
        problem = "waits for all threads of the block, but stands in a role"
        demand(op.scope != "block", problem, "let the role meet by a `gpu.named_barrier`")
    if isinstance(op, (gpu_ops.Scan, gpu_ops.Sort)):
        source, verb = (op.source, "sort") if isinstance(op, gpu_ops.Sort) else (op.sources[0], "scan")
        crosses = op.buffer is not None or source.layout.crosses((op.axis,), WARP)
        fix = f"give each warp whole rows, or {verb} before the roles"
        demand(not crosses, f"{verb}s across warps, for which all threads of the block meet, but stands in a role", fix)
    for value in op.operands:
        type_ = value.type
        if isinstance(type_, TileType) and type_.shape and type_.level == "register":
            inside = _is_in_role(value)
            demand(inside, f"reads {named(value)} from outside of its role", "make it in the role, or read it there")


def _is_in_role(value: Value) -> bool:
    owner = value.owner
    while owner is not None:
        if isinstance(owner, Role):
            return True
        owner = owner.parent
    return False


# Barriers


def _check_named_barrier(op: NamedBarrier) -> None:
    threads, _ = threads_around(op)
    launch = launch_around(op)
    assert launch is not None
    demand(op.id in NAMED_BARRIERS, f"is the barrier {op.id}", f"take 1 to {NAMED_BARRIERS[-1]}: 0 is the block's")
    fits = op.threads % WARP == 0 and threads <= op.threads <= launch.threads
    problem = f"is for {op.threads} threads, but {threads} come to it here"
    demand(fits, problem, f"take a multiple of 32, the sum of all who come, at most {launch.threads}")


def _check_turn(op: Turn) -> None:
    threads, _ = threads_around(op)
    last = op.id + threads // WARPGROUP - 1
    fits = op.id in NAMED_BARRIERS and last in NAMED_BARRIERS
    demand(fits, f"takes the barriers {op.id} to {last}", f"there are 1 to {NAMED_BARRIERS[-1]}: 0 is the block's")


def _check_mbarriers(op: Mbarriers) -> None:
    counted = 0 < op.arrivals <= MOST_PENDING
    demand(counted, f"ends phases after {op.arrivals} arrivals", f"take 1 to {MOST_PENDING}")
    for user in op.result.users:
        known = isinstance(user, (MbarrierExpect, MbarrierArrive, MbarrierWait, TmaLoad, Exchange))
        demand(known, f"{named(op.result)} is read by `{user.name}`", "mbarriers hold nothing to be read")
    if op.offset < 0:
        return
    launch = launch_around(op)
    assert launch is not None
    demand(op.offset % MBARRIER_BYTES == 0, f"stands at byte {op.offset}", f"take a multiple of {MBARRIER_BYTES}")
    end = op.offset + op.count * MBARRIER_BYTES
    problem = f"ends at byte {end} of the {launch.shared_bytes} that the launch has"
    demand(end <= launch.shared_bytes, problem, "correct `shared_bytes` of the launch")


def _check_is_mbarrier(value: Value) -> None:
    demand(isinstance(value.op, Mbarriers), f"{named(value)} is no mbarrier", "make it by `gpu.mbarriers`")


# Copies


def part_bytes(buffer: Value) -> int:
    """From one part of a buffer along its first axis to the next."""
    type_ = buffer.tile
    assert isinstance(type_.layout, SharedLayout)
    return type_.layout.strides([size for size in type_.shape if isinstance(size, int)])[0] * type_.dtype.bytes


def _check_exchange(op: Exchange) -> None:
    """Parts of both buffers lie alike, each in one run of bytes."""
    _, cluster = threads_around(op)
    parts = op.source.shape[0]
    demand(1 < cluster == parts, f"sends {parts} parts in a cluster of {cluster}", "each block gets one of several")
    source, target = op.source.tile.layout, op.target.tile.layout
    assert isinstance(source, SharedLayout)
    sent, room = part_bytes(op.target), part_bytes(op.source)
    demand(sent <= room, f"sends {sent} bytes of parts of {room}", "send no more rows than there are")
    ordered = tuple(range(len(source.order)))
    alike = ordered == source.order and source == target and not source.padding and not source.panel
    demand(alike, "sends to a buffer in another layout", "rows of both lie alike, one after the other")
    whole = sent % source.period == room % source.period == 0
    rule = f"parts of this layout are of multiples of {source.period} bytes"
    demand(whole, f"sends {sent} bytes of parts of {room}", rule)


def _check_copy(op: TmaLoad | TmaStore) -> None:
    _, cluster = threads_around(op)
    try:
        tensor_map = tensor_map_of(op, cluster)
    except ValueError as error:
        raise IllegalError(str(error), "see `ir/gpu/tensor_maps.py`, or copy by `gpu.copy`, `gpu.store`") from error
    _check_start(op, tensor_map)
    buffer = op.buffer.op
    while isinstance(buffer, (gpu_ops.View, gpu_ops.Reuse)):
        buffer = buffer.buffer.op
    if isinstance(buffer, gpu_ops.Buffer) and buffer.offset >= 0:
        unit = box_alignment(op.buffer.tile)
        problem = f"{named(op.buffer)} stands at byte {buffer.offset}"
        demand(buffer.offset % unit == 0, problem, f"TMA copies to multiples of {unit} in such a layout")


def _check_start(op: TmaLoad | TmaStore, tensor_map: TensorMap) -> None:
    """A box begins where TMA can begin, as far as it is known (the emulator sees the rest): see `tensor_maps`."""
    fast, unit = tensor_map.axes[0], elements_of_unit(tensor_map.dtype)
    found = remainder(op.indices[fast], unit)
    by = f"{found.rest} elements of {tensor_map.dtype} past a multiple of {found.divisor}"
    problem = f"begins {by} along axis {fast} of {named(op.tensor)}"
    demand(found.rest == 0, problem, f"TMA begins at multiples of {UNIT_BYTES} bytes along rows: here {unit} elements")


# Products


def _check_warpgroups(op: Op) -> None:
    role = role_around(op)
    first, (threads, _) = 0 if role is None else role.first, threads_around(op)
    whole = first % WARPGROUP == 0 and threads % WARPGROUP == 0
    problem = f"is of the threads {first} to {first + threads}, which are no whole warpgroups"
    demand(whole, problem, "begin at a multiple of 128, and take a multiple of 128")


def _check_product(op: Wgmma) -> None:
    instruction = warpgroup_instruction(op.instruction)
    if instruction is None:
        raise IllegalError(f"there is no instruction `{op.instruction}`", "write such as `m64n128k16_bf16_f32`")
    a, b, acc = op.a, op.b, op.acc
    takes = instruction.takes(a.dtype, b.dtype, acc.dtype)
    problem = f"{instruction} of {a.dtype} and {b.dtype} onto {acc.dtype}"
    demand(takes, problem, "cast the operands, or take another one")
    whole = op.depth > 0 and op.depth % instruction.k == 0
    demand(whole, f"is {op.depth} deep", f"{instruction} takes multiples of {instruction.k}")
    demand(acc.tile.level == "register", f"{named(acc)} is not in registers", "accumulators are")
    tiles = _divided(acc, instruction.accumulator_fragment)
    if a.tile.level == "register":
        _check_left(op, _divided(a, instruction.a_fragment), tiles)
    else:
        _check_operand(op, "a", instruction)
    _check_operand(op, "b", instruction)
    _check_users(op)


def _divided(value: Value, fragment: RegisterLayout) -> RegisterLayout:
    tiles = value.layout.divided(fragment)
    if tiles is None:
        raise IllegalError(f"{named(value)} is laid out as {value.layout}", f"it must end in `{fragment}`")
    return tiles


def _check_left(op: Wgmma, a: RegisterLayout, acc: RegisterLayout) -> None:
    """Every warpgroup has the rows of `a` that its part of the accumulator needs."""
    fits = all(digit.axis != 1 for digit in a.thread_digits) and a.reduced([1]) == acc.reduced([1])
    problem = f"a warpgroup does not have the rows of {named(op.a)} for its part of {named(op.acc)}"
    demand(fits, problem, "see `warpgroup_layouts` in ir/gpu/warpgroup_instructions.py")


def _check_operand(op: Wgmma, which: Literal["a", "b"], instruction: WarpgroupInstruction) -> None:
    """Tensor cores can read an operand out of its buffer, and it is all there."""
    value = op.a if which == "a" else op.b
    outer_axis, k_axis = op.a_axes if which == "a" else op.b_axes[::-1]
    try:
        shared_operand(value.tile, outer_axis, k_axis, instruction, which)
    except ValueError as error:
        raise IllegalError(f"{named(value)} {error}", "see `shared_operand` in ir/gpu/matrix_descriptors.py") from error
    size, depth = value.shape[outer_axis], value.shape[k_axis]
    assert isinstance(size, int)
    assert isinstance(depth, int)
    demand(op.depth <= depth, f"{named(value)} is {depth} deep, but {op.depth} are taken", "take no more than it has")
    along, name = (0, "rows") if which == "a" else (1, "columns")
    layout = op.acc.layout.reduced([1 - along])
    extent, (_, cluster) = layout.shape[0], threads_around(op)
    problem = f"{named(value)} has {size} {name}, but {named(op.acc)} {extent}"
    fix = f"it has all {name}, or in a cluster those of the block's part of {named(op.acc)}"
    demand(extent <= size or (extent == size * cluster and _is_shared_out(layout, cluster)), problem, fix)


def _is_shared_out(layout: RegisterLayout, cluster: int) -> bool:
    """Whether each block has a run of its own of what is laid out along one axis."""
    first = layout.thread_digits[0]
    return first.axis == 0 and first.size % cluster == 0 and first.size * first.stride == layout.shape[0]


def _check_users(op: Wgmma) -> None:
    """What is in flight is not touched."""
    for user in op.result.users:
        added = isinstance(user, Wgmma) and op.result is not user.a
        carried = isinstance(user, (WgmmaWait, tile_ops.Yield, tile_ops.For, tile_ops.While))
        problem = f"{named(op.result)} is in flight, but is read by `{user.name}`"
        demand(added or carried, problem, "let a `gpu.wgmma_wait` give it back first")
