"""Device functions by which roles meet: named barriers, mbarriers, and fences between the two ways to memory.

Addresses in shared memory are 32-bit numbers (see `shared_address`).
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import DeviceFunction, define
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP
from tiledsl.ir.layouts.layout import WARP

SINCE = 90


def named_barrier(action: str, number: int, threads: int) -> DeviceFunction:
    """Barrier `number` of the block: `threads` threads come there, and these ones wait (`sync`) or not (`arrive`).

    Those of one warp meet by themselves.
    """
    if threads == WARP and action == "sync":
        return DeviceFunction("sync_warp", "the lanes of a warp meet", "void sync_warp() {\n    __syncwarp();\n}")
    name = f"{action}_barrier_{number}_of_{threads}"
    purpose = f"{'waits' if action == 'sync' else 'arrives'} at a barrier of the block for {threads} threads"
    return DeviceFunction(
        name, purpose, f'void {name}() {{\n    asm volatile("bar.{action} {number}, {threads};" ::: "memory");\n}}'
    )


def warpgroup_barrier(action: str) -> DeviceFunction:
    """The same at a barrier whose number is computed, for two warpgroups."""
    purpose = f"{'waits' if action == 'sync' else 'arrives'} at a barrier of the block for two warpgroups"
    text = f'asm volatile("bar.{action} %0, {2 * WARPGROUP};" : : "r"(number) : "memory");'
    name = f"{action}_of_warpgroups"
    return DeviceFunction(name, purpose, f"void {name}(unsigned number) {{\n    {text}\n}}")


def change_registers(count: int, *, increase: bool) -> DeviceFunction:
    """Gives each thread of a warpgroup that many registers; it waits until others have left enough for an increase."""
    name = f"have_{count}_registers"
    change = "inc" if increase else "dec"
    return DeviceFunction(
        name,
        f"from here on each thread of the warpgroup has {count} registers",
        f'void {name}() {{\n    asm volatile("setmaxnreg.{change}.sync.aligned.u32 {count};");\n}}',
    )


define(
    "elect_lane",
    "whether this is the one lane of its warp that does what only one does; all lanes ask at once",
    """bool elect_lane() {
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected != 0;
}""",
    since=SINCE,
)

define(
    "begin_mbarriers",
    "makes `count` mbarriers side by side, a phase of which is over after that many arrivals",
    """void begin_mbarriers(unsigned barriers, int count, int arrivals) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barriers + i * 8u), "r"(arrivals) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}""",
    since=SINCE,
)
define(
    "end_mbarriers",
    "ends the use of `count` mbarriers side by side",
    """void end_mbarriers(unsigned barriers, int count) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(barriers + i * 8u) : "memory");
    }
}""",
    since=SINCE,
)
define(
    "arrive",
    "arrives at an mbarrier of this block; what this thread did before is done",
    """void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}""",
    since=SINCE,
)
for _name, _release, _acquire, _told in (
    ("", "", "", ""),
    ("_cluster", ".release.cluster", ".acquire.cluster", "; of global memory too, which takes long"),
):
    define(
        f"arrive_at{_name}",
        f"arrives at an mbarrier of some block of the cluster{_told}",
        f"""void arrive_at{_name}(unsigned barrier, unsigned block) {{
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(barrier), "r"(block));
    asm volatile("mbarrier.arrive{_release}.shared::cluster.b64 _, [%0];" :: "r"(address) : "memory");
}}""",
        since=SINCE,
    )
    define(
        f"wait_for_phase{_name}",
        f"waits until the phase of that parity is over{_told}",
        f"""void wait_for_phase{_name}(unsigned barrier, unsigned parity) {{
    unsigned over;
    do {{
        asm volatile("{{ .reg .pred p; mbarrier.try_wait.parity{_acquire}.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }}" : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
    }} while (!over);
}}""",
        since=SINCE,
    )

for _name, _words, _memory in (
    ("shared", ".shared::cta", "shared memory"), ("global", "", "shared and global memory"),
):  # fmt: skip
    define(
        f"fence_{_name}_proxies",
        f"what this thread did in {_memory} is done before what TMA and tensor cores do next",
        f'void fence_{_name}_proxies() {{\n    asm volatile("fence.proxy.async{_words};" ::: "memory");\n}}',
        since=SINCE,
    )
