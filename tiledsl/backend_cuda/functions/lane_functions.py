"""Device functions by which threads work together: barriers of blocks and clusters, memory of other blocks."""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import define

define(
    "cluster_rank",
    "the number of this block in its cluster",
    """unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}""",
)
define(
    "cluster_arrive",
    "says that this thread is here, and what it wrote is done",
    """void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}""",
)
define(
    "cluster_begin",
    "says that this thread is here, and nothing of what it wrote",
    """void cluster_begin() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}""",
)
define(
    "cluster_wait",
    "waits until all threads of the cluster have arrived",
    """void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}""",
)
define(
    "cluster_barrier",
    "all threads of the cluster arrive before any goes on",
    "void cluster_barrier() {\n    cluster_arrive();\n    cluster_wait();\n}",
)
define(
    "shared_address",
    "the address of something in shared memory, within shared memory",
    """unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}""",
)

define(
    "begin_arrivals",
    "makes two barriers, each of which waits for one `expect_bytes` and as many bytes as that says",
    """void begin_arrivals(void* barriers) {
    const unsigned address = shared_address(barriers);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address + 8u) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}""",
    since=90,
)
define(
    "expect_bytes",
    "tells a barrier how many bytes other blocks will write",
    """void expect_bytes(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}""",
    since=90,
)
define(
    "wait_for_bytes",
    "waits until all bytes that a barrier expects are there; `parity` is that of how often it was waited for before",
    """void wait_for_bytes(unsigned barrier, unsigned parity) {
    unsigned complete;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(complete) : "r"(barrier), "r"(parity) : "memory");
    } while (!complete);
}""",
    since=90,
)

define(
    "memory_of_block",
    "the place in the shared memory of a block of the cluster that `place` is in that of this one",
    """unsigned char* memory_of_block(unsigned char* place, unsigned block) {
    unsigned char* found;
    asm("mapa.u64 %0, %1, %2;" : "=l"(found) : "l"(place), "r"(block));
    return found;
}""",
    since=90,
)

for _type, _name, _letter, _bits in (
    ("float", "f32", "f", 32), ("int", "i32", "r", 32), ("unsigned", "u32", "r", 32), ("double", "f64", "d", 64),
    ("long long", "i64", "l", 64), ("unsigned long long", "u64", "l", 64),
):  # fmt: skip
    define(
        f"send_to_peer_{_name}",
        "writes to the same place in another block of the cluster, whose barrier counts the bytes when they are there",
        f"""void send_to_peer_{_name}({_type}* place, unsigned barrier, unsigned peer, {_type} value) {{
    unsigned address, counter;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(place)), "r"(peer));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(barrier), "r"(peer));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b{_bits} [%0], %1, [%2];"
                 :: "r"(address), "{_letter}"(value), "r"(counter) : "memory");
}}""",
        since=90,
    )

for _name, _type in (
    ("f32", "float"), ("f64", "double"), ("i32", "int"), ("u32", "unsigned"), ("i64", "long long"),
    ("u64", "unsigned long long"), ("bool", "bool"),
):  # fmt: skip
    for _stem, _sign in (("larger", ">"), ("smaller", "<")):
        # no `&&` and `||`, which would be branches
        _nan = " | ((other != other) & (value == value))" if _name in ("f32", "f64") else ""
        _both = " | ((other != other) & (value != value))" if _name in ("f32", "f64") else ""
        define(
            f"take_{_stem}_{_name}",
            f"keeps the {_stem} of two values and where it stands: NaN before all, and the first of equals",
            f"""void take_{_stem}_{_name}({_type}& value, int& index, {_type} other, int other_index) {{
    const bool better = (other {_sign} value){_nan};
    const bool same = (other == value){_both};
    const bool taken = better | (same & (other_index < index));
    value = taken ? other : value;
    index = taken ? other_index : index;
}}""",
        )
define(
    "swizzled",
    "an offset with the bits of the mask XORed with those `shift` above",
    "unsigned swizzled(unsigned offset, unsigned shift, unsigned mask) {\n"
    "    return offset ^ ((offset >> shift) & mask);\n}",
)
