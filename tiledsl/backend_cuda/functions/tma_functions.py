"""Device functions of TMA: copies between boxes of tensors and shared memory, which one thread begins.

A tensor map tells where a tensor is, and what a box of it is. It is a parameter of the kernel, and made at the launch
(see `tensor_maps.py`). Addresses in shared memory are 32-bit numbers.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import DeviceFunction, define

SINCE = 90
TENSOR_MAP = """// where a tensor is, and what a box of it is; only the hardware knows more
struct __align__(64) TensorMap {
    unsigned long long words[16];
};
"""

define(
    "prefetch_tensor_map",
    "fetches a tensor map, which will be needed soon",
    """void prefetch_tensor_map(const void* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}""",
    since=SINCE,
)
for _rank in range(1, 6):
    _parameters = ", ".join(f"int c{i}" for i in range(_rank))
    _inputs = ", ".join(f'"r"(c{i})' for i in range(_rank))
    for _suffix, _words, _parameter, _input in (
        ("", "", "", ""),
        ("_to_all", ".multicast::cluster", ", unsigned short blocks", ', "h"(blocks)'),
    ):
        _first = 3 + bool(_suffix)
        _places = ", ".join(f"%{_first + i}" for i in range(_rank))
        _mask = ", %3" if _suffix else ""
        define(
            f"tma_load_{_rank}{_suffix}",
            "begins to copy a box into shared memory, where an mbarrier counts the bytes"
            + (", to the same place in several blocks" if _suffix else ""),
            f"""void tma_load_{_rank}{_suffix}(
    unsigned to, const void* map, unsigned barrier{_parameter}, {_parameters}) {{
    asm volatile("cp.async.bulk.tensor.{_rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{_words} "
                 "[%0], [%1, {{{_places}}}], [%2]{_mask};"
                 :: "r"(to), "l"(map), "r"(barrier){_input}, {_inputs} : "memory");
}}""",
            since=SINCE,
        )
    _places = ", ".join(f"%{2 + i}" for i in range(_rank))
    define(
        f"tma_store_{_rank}",
        "begins to copy a box from shared memory",
        f"""void tma_store_{_rank}(const void* map, unsigned from, {_parameters}) {{
    asm volatile("cp.async.bulk.tensor.{_rank}d.global.shared::cta.bulk_group [%0, {{{_places}}}], [%1];"
                 :: "l"(map), "r"(from), {_inputs} : "memory");
}}""",
        since=SINCE,
    )
for _pixels in range(1, 4):
    _rank = _pixels + 2
    _parameters = ", ".join([*(f"int c{i}" for i in range(_rank)), *(f"unsigned short w{i}" for i in range(_pixels))])
    _inputs = ", ".join([*(f'"r"(c{i})' for i in range(_rank)), *(f'"h"(w{i})' for i in range(_pixels))])
    _places = ", ".join(f"%{3 + i}" for i in range(_rank))
    _within = ", ".join(f"%{3 + _rank + i}" for i in range(_pixels))
    define(
        f"tma_windows_{_rank}",
        "begins to copy pixels of windows into shared memory, where an mbarrier counts the bytes",
        f"""void tma_windows_{_rank}(unsigned to, const void* map, unsigned barrier, {_parameters}) {{
    asm volatile("cp.async.bulk.tensor.{_rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {{{_places}}}], [%2], {{{_within}}};"
                 :: "r"(to), "l"(map), "r"(barrier), {_inputs} : "memory");
}}""",
        since=SINCE,
    )
define(
    "send_to_block",
    "begins to copy to the shared memory of some block of the cluster, whose mbarrier at that place counts the bytes",
    """void send_to_block(unsigned to, unsigned from, unsigned bytes, unsigned barrier, unsigned block) {
    asm volatile("{ .reg .b32 there, counts; mapa.shared::cluster.u32 there, %0, %4; "
                 "mapa.shared::cluster.u32 counts, %3, %4; "
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [there], [%1], %2, [counts]; }"
                 :: "r"(to), "r"(from), "r"(bytes), "r"(barrier), "r"(block) : "memory");
}""",
    since=SINCE,
)
define(
    "bulk_commit",
    "makes a group of this thread's copies by TMA to global memory so far",
    'void bulk_commit() {\n    asm volatile("cp.async.bulk.commit_group;" ::: "memory");\n}',
    since=SINCE,
)


def bulk_wait(groups: int, *, read: bool) -> DeviceFunction:
    """Waits until at most the last `groups` groups of this thread's copies are not done, or have not been read."""
    name = f"bulk_wait{'_read' if read else ''}{f'_but_{groups}' if groups else ''}"
    purpose = f"waits until this thread's copies {'have read their memory' if read else 'are done'}"
    purpose += f", but for the last {groups} groups" if groups else ""
    words = f"cp.async.bulk.wait_group{'.read' if read else ''} {groups};"
    return DeviceFunction(name, purpose, f'void {name}() {{\n    asm volatile("{words}" ::: "memory");\n}}')
