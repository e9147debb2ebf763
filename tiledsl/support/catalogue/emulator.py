"""Messages of the emulator: what is wrong with a program in GPU form, found while it runs."""

from tiledsl.support.errors import ErrorSpec, TileLayoutError, TileRuntimeError

_BARRIER = "put a barrier between the two"

ENTRIES: dict[str, ErrorSpec] = {
    # Accesses in no order
    "emulator-race": ErrorSpec(
        TileRuntimeError,
        "race in {program}: `{op}` lets {who} {verb} {where}, which {other} {before} in `{by}` with no barrier between",
        _BARRIER,
    ),
    "emulator-race-under-way": ErrorSpec(
        TileRuntimeError,
        "race in {program}: `{op}` lets {who} {verb} {where}, which `{by}` {does} and may not be done with: "
        "no wait for {what} comes before",
        "{fix}",
    ),
    "emulator-race-programs": ErrorSpec(
        TileRuntimeError,
        "race in {program}: `{op}` lets {who} {verb} {where}, which {other} {before} in `{by}`",
        "let one program alone write an element, or use `tile.atomic_add` and the like",
    ),
    "emulator-race-within": ErrorSpec(
        TileRuntimeError,
        "race in {program}: `{op}` lets {who} and {other} write {where} at the same time",
        "let one thread alone write each element",
    ),
    "emulator-proxy-fence": ErrorSpec(
        TileRuntimeError,
        "missing proxy fence in {program}: `{op}` {verb}s {where} through the async proxy, which {other} {before} "
        "through the generic one in `{by}`",
        "put a `gpu.proxy_fence` after `{by}`, before the barrier that the two meet at",
    ),
    "emulator-uninitialised": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} reads {where}, which nothing was written to yet",
        "write it first, or wait for the copy that does",
    ),
    "emulator-mbarrier-overwritten": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} writes {where}, where {mbarrier} is",
        "give the buffer or the mbarriers another offset",
    ),
    "emulator-scratch": ErrorSpec(
        TileRuntimeError,
        "race in {program}: `{op}` uses {where}, which the blocks of the cluster fold through as %{buffer}: they may "
        "write there at any time",
        "give the buffers memory of their own",
    ),
    "emulator-mbarrier-uninitialised": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} uses {mbarrier}, whose initialisation it may come before",
        "put a `gpu.barrier` after `gpu.mbarriers`: with `scope = cluster` if other blocks use them",
    ),
    # Things under way
    "emulator-accumulator": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} reads %{value}, an accumulator in flight: `{by}` adds to it",
        "take what a `gpu.wgmma_wait` for that product gives back",
    ),
    "emulator-accumulator-unwaited": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} gives %{value} back, but it leaves the product `{by}` in flight: "
        "it waits for all but the last {unfinished} groups",
        "let fewer groups be under way after it, `groups`: {groups}",
    ),
    "emulator-operand-registers": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} ends a product of `{by}` without keeping its operand %{value}: "
        "its registers may be written to while it is in flight",
        "name %{value} among the values of the wait",
    ),
    "emulator-wgmma-fence": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} takes %{value}, whose registers were touched after the last `gpu.wgmma_fence`",
        "put a `gpu.wgmma_fence` before the first product, and after each change of registers",
    ),
    "emulator-exit": ErrorSpec(
        TileRuntimeError,
        "{program} ends while {what} of `{op}` {are} under way",
        "{fix}",
    ),
    # Mbarriers, barriers
    "emulator-arrivals": ErrorSpec(
        TileRuntimeError,
        "too many arrivals in {program}: `{op}` arrives {count} times at {mbarrier}, whose phase {phase} lacks "
        "{pending} of {arrivals} arrivals",
        "make the `arrivals` of `gpu.mbarriers` the number of those who arrive in a phase",
    ),
    "emulator-bytes": ErrorSpec(
        TileRuntimeError,
        "wrong number of bytes in {program}: what `{op}` copied for phase {phase} of {mbarrier} came when "
        "phase {now} was on",
        "expect just the bytes of all boxes: `bytes` of `gpu.mbarrier_expect`",
    ),
    "emulator-phase": ErrorSpec(
        TileRuntimeError,
        "wrong phase in {program}: {who} mean phase {missed} of {mbarrier} when they wait for parity {parity} in "
        "`{op}`, but phase {phase} is over too",
        "let nobody end a phase before those who wait for the one before have gone on, and wait for every phase",
    ),
    "emulator-overtaken": ErrorSpec(
        TileRuntimeError,
        "wrong phase in {program}: `{op}` ends phase {phase} of {mbarrier}, but nothing says that {who} had found "
        "phase {before} over by then: slower, they would wait for ever",
        "let those who wait meet those who arrive, by a barrier or an arrival, before the next phase can end",
    ),
    "emulator-parity": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} waits for parity {parity} of %{mbarriers}, which is neither 0 nor 1",
        "take the number of the phase modulo 2",
    ),
    "emulator-block-gone": ErrorSpec(
        TileRuntimeError,
        "{program} lets block {block} end before `{op}` of another block arrives for phase {phase} of {mbarrier}",
        "let the block wait for that phase, or put a barrier of the cluster before the end",
    ),
    "emulator-deadlock": ErrorSpec(
        TileRuntimeError,
        "deadlock in {program}: {first}{more}",
        "{fix}",
    ),
    "emulator-endless": ErrorSpec(
        TileRuntimeError,
        "{who} in {program} went round `{op}` {turns} times: it may wait for what never comes",
        "let no program wait for another one: the emulator runs them one after the other",
    ),
    "emulator-barrier-threads": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program} brings {count} threads to {barrier}, where {present} are already, of {threads}",
        "make `threads` the number of all who arrive or wait there",
    ),
    "emulator-barrier-turn": ErrorSpec(
        TileRuntimeError,
        "wrong turn in {program}: `{op}` brings {who} to {barrier} for another turn, but nothing says that {other} had "
        "come for the last one: in another order they would be counted for that one",
        "let those who come next learn from those who came before, or take another `id`",
    ),
    "emulator-divergence": ErrorSpec(
        TileRuntimeError,
        "divergence in {program}: {who} came to `{op}`, but {other} to another op, `{by}`; "
        "all must come to the same one",
        "let nothing but what is the same in all threads decide what is run",
    ),
    # Addresses
    "emulator-global-bounds": ErrorSpec(
        TileRuntimeError,
        "out of bounds in {program}: `{op}` lets {who} access %{tensor} at {place} on axis {axis}, "
        "whose size is {size}",
        "mask the access by extents, or have the axis checked",
    ),
    "emulator-shared-bounds": ErrorSpec(
        TileRuntimeError,
        "out of bounds in {program}: `{op}` accesses %{buffer} at {place} on axis {axis}, whose size is {size}",
        "check the offsets, and the number of stages",
    ),
    "emulator-shared-end": ErrorSpec(
        TileRuntimeError,
        "out of bounds: `{op}` needs {needed} bytes at {start} of the {size} bytes of shared memory",
        "correct the offset, or `shared_bytes` of the launch",
    ),
    "emulator-misaligned": ErrorSpec(
        TileRuntimeError,
        "misaligned access in {program}: `{op}` needs multiples of {width} bytes, which {place} is not",
        "give it an offset or a stride that is one",
    ),
    "emulator-box-start": ErrorSpec(
        TileRuntimeError,
        "illegal box in {program}: `{op}` copies from element {start} along axis {axis} of %{tensor} on, {bytes} bytes "
        "into a row, and TMA takes multiples of {width} there",
        "let boxes begin at multiples of {elements} elements of {dtype} along axis {axis}, or copy by `gpu.copy`, "
        "`gpu.store`",
    ),
    "emulator-box-place": ErrorSpec(
        TileRuntimeError,
        "illegal box in {program}: `{op}` begins at {start} along axis {axis} of %{tensor}, and TMA takes coordinates "
        "of 32 bits, from {least} to {most}",
        "bring what is outside of the tensor to -1, as zeros come from there",
    ),
    "emulator-vector": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program}: the vector of {vector} at slot {slot} of {who} {reason}: {of} at bytes {places}",
        "take fewer elements at once (`vector`)",
    ),
    # Registers
    "emulator-replicas": ErrorSpec(
        TileRuntimeError,
        "`{op}` in {program}: {problem}",
        "copies of an element must be the same in all threads that have one",
    ),
    "emulator-layout": ErrorSpec(
        TileLayoutError,
        "`{op}`: {problem}",
        "the layouts do not fit what the instruction does; see docs/layouts.md",
    ),
    # Warnings
    "emulator-bank-conflicts": ErrorSpec(
        TileRuntimeError,
        "`{op}` has bank conflicts: {turns} turns of shared memory for what {ideal} would do, in each of {count} "
        "accesses by a warp",
        "give %{buffer} a swizzle or padding",
    ),
}
