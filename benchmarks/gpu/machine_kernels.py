"""CUDA C that finds how fast the parts of a GPU are: each kernel keeps one of them busy and notes the clocks it took.

All take `out`, two numbers for each block (clocks and nanoseconds), `data`, and how many turns to make.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

HEAD = """\
typedef unsigned long long u64;
__device__ __forceinline__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
__device__ __forceinline__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#define BEGIN __syncthreads(); u64 t0 = now(); long long c0 = clock64();
#define END __syncthreads(); if (threadIdx.x == 0) { \\
  out[2 * blockIdx.x] = clock64() - c0; out[2 * blockIdx.x + 1] = now() - t0; }
"""


@dataclass(frozen=True)
class Probe:
    """A kernel. `work`: what a block does in one turn, in the units of its rate."""

    name: str
    body: str
    threads: int
    work: int
    attributes: str = ""
    needs: Callable[[int], bool] = lambda capability: True
    """Of the capability."""

    @property
    def source(self) -> str:
        """CUDA C of one kernel, which has the probe's name."""
        head = f'extern "C" __global__ void {self.attributes} __launch_bounds__({self.threads})'
        return f"{HEAD}{head} {self.name}(u64* out, char* data, int turns) {{\n{self.body}\n}}\n"


def _chains(instruction: str, work: int, name: str, kind: str = "float") -> Probe:
    """Eight chains of an instruction in each of 1024 threads."""
    letter = kind[0]
    bound = f': "+{letter}"(x[{{}}]) : "{letter}"(y), "{letter}"(z));'
    steps = "\n".join(f'    asm volatile("{instruction}" {bound.format(i)}' for i in range(8))
    body = f"""\
  {kind} x[8], y = 0.5f + turns * 0.f, z = 1.f + turns * 0.f;
  for (int i = 0; i < 8; ++i) x[i] = threadIdx.x + i;
  BEGIN
  for (int i = 0; i < turns; ++i) {{
{steps}
  }}
  END
  {kind} sum = 0; for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == 12345.f) *({kind}*)data = sum;"""
    return Probe(name, body, 1024, 1024 * 8 * work)


def _doubles(shape: str, sides: tuple[int, int, int], needs: Callable[[int], bool]) -> Probe:
    """Four accumulators in each of 16 warps, in f64; of each operand and of the result a thread has so many."""
    a, b, c = sides
    names = [f"%{i}" for i in range(c + a + b)]
    result, left, right = (", ".join(part) for part in (names[:c], names[c : c + a], names[c + a :]))
    inputs = ", ".join(f'"d"(v[{i}])' for i in range(a + b))
    steps = "\n".join(
        f'    asm volatile("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 {{{result}}}, {{{left}}}, {{{right}}}, '
        f'{{{result}}};" : ' + ", ".join(f'"+d"(d[{n}][{i}])' for i in range(c)) + f" : {inputs});"
        for n in range(4)
    )
    body = f"""\
  double v[{a + b}], d[4][{c}] = {{}};
  for (int i = 0; i < {a + b}; ++i) v[i] = ((double*)data)[threadIdx.x + i];
  BEGIN
  for (int i = 0; i < turns; ++i) {{
{steps}
  }}
  END
  double sum = 0; for (int n = 0; n < 4; ++n) for (int i = 0; i < {c}; ++i) sum += d[n][i];
  if (sum == 12345) *(double*)data = sum;"""
    rows, columns, depth = map(int, re.findall(r"\d+", shape))
    return Probe("mma_8", body, 512, 16 * 4 * rows * columns * depth, needs=needs)


def _mma(name: str, shape: str, types: str, registers: tuple[int, int], kind: str, work: int) -> Probe:
    """Four accumulators in each of 16 warps."""
    a, b = registers
    left = ", ".join(f"%{4 + i}" for i in range(a))
    right = ", ".join(f"%{4 + a + i}" for i in range(b))
    inputs = ", ".join(f'"r"(v[{i}])' for i in range(a + b))
    letter, ctype = ("r", "int") if kind == "s32" else ("f", "float")
    steps = "\n".join(
        f'    asm volatile("mma.sync.aligned.{shape}.row.col.{types} {{%0, %1, %2, %3}}, {{{left}}}, {{{right}}}, '
        f'{{%0, %1, %2, %3}};" : ' + ", ".join(f'"+{letter}"(d[{n}][{i}])' for i in range(4)) + f" : {inputs});"
        for n in range(4)
    )
    body = f"""\
  unsigned v[{a + b}]; {ctype} d[4][4] = {{}};
  for (int i = 0; i < {a + b}; ++i) v[i] = ((unsigned*)data)[threadIdx.x * {a + b} + i];
  BEGIN
  for (int i = 0; i < turns; ++i) {{
{steps}
  }}
  END
  {ctype} sum = 0; for (int n = 0; n < 4; ++n) for (int i = 0; i < 4; ++i) sum += d[n][i];
  if (sum == 12345) *({ctype}*)data = sum;"""
    return Probe(name, body, 512, 16 * 4 * work)


def _wgmma(name: str, depth: int, types: str, kind: str) -> Probe:
    """Two warpgroups, 64 by 256 elements of result each, operands in shared memory."""
    letter, ctype = ("r", "int") if kind == "s32" else ("f", "float")
    results = ", ".join(f"%{i}" for i in range(128))
    flags = {"f16.f16": "1, 1, 1, 0, 0", "tf32.tf32": "1, 1, 1", "s8.s8": "1"}[types]
    bound = ", ".join(f'"+{letter}"(d[{i}])' for i in range(128))
    step = (
        f'    asm volatile("wgmma.mma_async.sync.aligned.m64n256k{depth}.{kind}.{types} {{{results}}}, %128, %129, '
        f'{flags};" : {bound} : "l"(a), "l"(b));'
    )
    steps = "\n".join([step] * 4)
    body = f"""\
  __shared__ __align__(1024) char memory[20480];
  for (int i = threadIdx.x; i < 20480; i += blockDim.x) memory[i] = data[i];
  asm volatile("fence.proxy.async;");
  u64 shape = ((u64)(128 >> 4) << 16) | ((u64)(256 >> 4) << 32);
  u64 a = shape | (place(memory) >> 4), b = shape | (place(memory + 4096) >> 4);
  {ctype} d[128] = {{}};
  BEGIN
  for (int i = 0; i < turns; ++i) {{
    asm volatile("wgmma.fence.sync.aligned;");
{steps}
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
  }}
  END
  {ctype} sum = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += d[i];
  if (sum == 12345) *({ctype}*)data = sum;"""
    return Probe(name, body, 256, 2 * 4 * 64 * 256 * depth, needs=lambda capability: capability == 90)


_SHARED = """\
  __shared__ __align__(16) char memory[32768];
  for (int i = threadIdx.x; i < 32768; i += blockDim.x) memory[i] = data[i];
  unsigned at = place(memory) + threadIdx.x * 16, sum = 0;
  BEGIN
  for (int i = 0; i < turns; ++i) {
    unsigned w, x, y, z;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w), "=r"(x), "=r"(y), "=r"(z) : "r"(at + (j & 1) * 16384));
      sum ^= w ^ x ^ y ^ z;
    }
  }
  END
  if (sum == 12345) *(unsigned*)data = sum;"""

L2_WINDOW = 8 << 20
"""Bytes that all blocks read again and again: they stay in the L2 cache of every GPU of the table but one."""
_L2 = f"""\
  unsigned at = (blockIdx.x * 65536u + threadIdx.x * 16u) % {L2_WINDOW}u, sum = 0;
  BEGIN
  for (int i = 0; i < turns; ++i) {{
#pragma unroll
    for (int j = 0; j < 8; ++j) {{
      unsigned w, x, y, z;
      asm volatile("ld.global.cg.v4.u32 {{%0, %1, %2, %3}}, [%4];"
                   : "=r"(w), "=r"(x), "=r"(y), "=r"(z) : "l"(data + (at + j * 16384u) % {L2_WINDOW}u));
      sum ^= w ^ x ^ y ^ z;
    }}
    at += 131072u;
  }}
  END
  if (sum == 12345) *(unsigned*)data = sum;"""

_CHASE = """\
  __shared__ __align__(16) unsigned memory[4];
  unsigned at = 0;
  BEGIN
  if (threadIdx.x == 0)
    for (int i = 0; i < turns; ++i) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :: "r"(place(memory)), "l"(data + (u64)at * 256) : "memory");
      asm volatile("cp.async.wait_all;" ::: "memory");
      at = *(volatile unsigned*)memory;
    }
  END
  if (at == 0xffffffffu) *(unsigned*)data = at;"""

PEER_BYTES = 16384
_PEER = f"""\
  __shared__ __align__(128) char from[{PEER_BYTES}], to[{PEER_BYTES}];
  __shared__ __align__(8) u64 bar;
  unsigned other, here = place(&bar), there, target;
  if (threadIdx.x == 0) {{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(here));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }}
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(other)); other ^= 1;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(other));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(target) : "r"(place(to)), "r"(other));
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");
  BEGIN
  if (threadIdx.x == 0)
    for (int i = 0; i < turns; ++i) {{
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], {PEER_BYTES};" :: "r"(here));
      asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                   "[%0], [%1], {PEER_BYTES}, [%2];" :: "r"(target), "r"(place(from)), "r"(there) : "memory");
      unsigned done = 0;
      while (!done)
        asm volatile("{{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }}"
                     : "=r"(done) : "r"(here), "r"(i & 1) : "memory");
    }}
  END
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");"""

PROBES: tuple[Probe, ...] = (
    _chains("fma.rn.f32 %0, %0, %1, %2;", 1, "instructions"),
    _chains("ex2.approx.ftz.f32 %0, %0;", 1, "exponentials"),
    _mma("mma_4", "m16n8k8", "f32.tf32.tf32.f32", (4, 2), "f32", 16 * 8 * 8),
    _mma("mma_2", "m16n8k16", "f32.f16.f16.f32", (4, 2), "f32", 16 * 8 * 16),
    _mma("mma_1", "m16n8k32", "s32.s8.s8.s32", (4, 2), "s32", 16 * 8 * 32),
    _chains("fma.rn.f64 %0, %0, %1, %2;", 1, "doubles", "double"),
    _doubles("m8n8k4", (1, 1, 2), lambda capability: capability != 90),
    _doubles("m16n8k8", (4, 2, 4), lambda capability: capability == 90),
    _wgmma("wgmma_4", 8, "tf32.tf32", "f32"),
    _wgmma("wgmma_2", 16, "f16.f16", "f32"),
    _wgmma("wgmma_1", 32, "s8.s8", "s32"),
    Probe("shared_bytes", _SHARED, 1024, 1024 * 16 * 8),
    Probe("l2_bytes", _L2, 1024, 1024 * 16 * 8),
    Probe("latency", _CHASE, 32, 1),
    Probe(
        "peer_bytes", _PEER, 128, PEER_BYTES, attributes="__cluster_dims__(2, 1, 1)",
        needs=lambda capability: capability >= 90,
    ),
    Probe("launch", "", 32, 1),
)  # fmt: skip
"""All of them."""


def probes(capability: int) -> dict[str, Probe]:
    """Those that an architecture has the instructions for, by name."""
    return {probe.name: probe for probe in PROBES if probe.needs(capability)}


def nvrtc_options(capability: int) -> list[str]:
    """For an architecture that the table of machines need not have."""
    return [f"--gpu-architecture=sm_{capability}{'a' if capability >= 90 else ''}", "--std=c++17"]
