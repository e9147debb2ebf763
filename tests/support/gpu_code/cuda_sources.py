"""Small CUDA C programs, written by hand, for tests of what compiles and reads machine code."""

from __future__ import annotations

COPY = """
extern "C" __global__ void __launch_bounds__(256) copy(const float4* x, float4* y, long long n) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""
"""Sixteen bytes per access, no shared memory."""

SCALE_ADD = """
extern "C" __global__ void scale_add(float* x) {
  x[0] = x[1] * x[2] + x[3];
}
"""
"""A multiplication and an addition, contracted or not."""

SPILL = """
extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* x, int n) {
  float r[64];
#pragma unroll
  for (int i = 0; i < 64; i++) r[i] = x[threadIdx.x + i * 1024];
  for (int j = 0; j < n; j++) {
#pragma unroll
    for (int i = 0; i < 64; i++) r[i] = r[i] * r[(i * 7 + 1) & 63] + x[j];
  }
#pragma unroll
  for (int i = 0; i < 64; i++) x[threadIdx.x + i * 1024] = r[i];
}
"""
"""64 live values, where the launch bounds leave 32 registers."""

LOCAL_ARRAY = """
extern "C" __global__ void local_array(float* x, const int* at, int n) {
  float r[8];
#pragma unroll
  for (int i = 0; i < 8; i++) r[i] = x[i];
  for (int j = 0; j < n; j++) r[at[j] & 7] += r[at[j + 1] & 7];
  x[threadIdx.x] = r[n & 7];
}
"""
"""An array that is indexed at run time: a stack, and no spill."""

PRODUCTS = """
#define KERNEL(name, type, constraint, shape, operands) \\
  extern "C" __global__ void name(type* d, const unsigned* x) { \\
    unsigned a = x[threadIdx.x]; \\
    type d0 = 0, d1 = 0, d2 = 0, d3 = 0; \\
    asm volatile("mma.sync.aligned." shape ".row.col." operands \\
        " {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};" \\
        : "+" constraint(d0), "+" constraint(d1), "+" constraint(d2), "+" constraint(d3) : "r"(a)); \\
    d[0] = d0; d[1] = d1; d[2] = d2; d[3] = d3; \\
  }
KERNEL(mma_f16, float, "f", "m16n8k16", "f32.f16.f16.f32")
KERNEL(mma_bf16, float, "f", "m16n8k16", "f32.bf16.bf16.f32")
KERNEL(mma_tf32, float, "f", "m16n8k8", "f32.tf32.tf32.f32")
KERNEL(mma_s8, int, "r", "m16n8k32", "s32.s8.u8.s32")
#if __CUDA_ARCH__ >= 890
KERNEL(mma_f8, float, "f", "m16n8k32", "f32.e4m3.e5m2.f32")
#endif
extern "C" __global__ void mma_f64(double* d) {
  double d0 = 0, d1 = 0, a = d[threadIdx.x];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%2}, {%0,%1};"
      : "+d"(d0), "+d"(d1) : "d"(a));
  d[0] = d0; d[1] = d1;
}
"""
"""One matrix instruction of each kind."""

STAGED = """
extern "C" __global__ void staged(const uint4* x, uint4* y, unsigned short* z) {
  __shared__ __align__(128) uint4 buffer[256];
  __shared__ unsigned short halves[256];
  unsigned address = (unsigned)__cvta_generic_to_shared(buffer + threadIdx.x);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(x + threadIdx.x));
  asm volatile("cp.async.wait_all;");
  halves[threadIdx.x] = z[threadIdx.x];
  __syncthreads();
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  z[threadIdx.x] = halves[threadIdx.x ^ 1];
  uint4 w = buffer[threadIdx.x ^ 1];
  w.x ^= v.x; w.y ^= v.y; w.z ^= v.z; w.w ^= v.w;
  y[threadIdx.x] = w;
}
"""
"""Global to shared by cp.async, ldmatrix, plain shared accesses of 2 and 16 bytes, a block barrier."""

SERIALISED = """
extern "C" __global__ void __launch_bounds__(128, 1) serialised(float* o, long long a, long long b, int n) {
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  for (int i = 0; i < n; i++) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(a + i), "l"(b + i));
    asm volatile("wgmma.commit_group.sync.aligned;");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  o[threadIdx.x] = d0 + d1 + d2 + d3;
}
"""
"""wgmma without the fence that it needs, for sm_90."""
