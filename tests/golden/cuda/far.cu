// a + b, wrapping
__device__ __forceinline__ long long add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}

// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// 4 bytes of global memory, or `fill` where they are not inside
__device__ __forceinline__ void read_float_if(float* to, const void* from, bool inside, float fill) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b32 %0, %3; @p ld.global.nc.b32 %0, [%1]; }"
                 : "=f"(to[0]) : "l"(from), "r"((int)inside), "f"(fill));
}

// 4 bytes to global memory, where they are inside
__device__ __forceinline__ void store_float_if(void* to, const float* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.b32 [%0], %1; }"
                 :: "l"(to), "f"(from[0]), "r"((int)inside) : "memory");
}

// a - b, wrapping
__device__ __forceinline__ long long sub_i64(long long a, long long b) {
    return (long long)((unsigned long long)a - (unsigned long long)b);
}

extern "C" __global__ void __launch_bounds__(64) far_(
    const float* __restrict__ x_,
    float* __restrict__ z_,
    long long M_,
    long long N_,
    long long x_stride0_,
    long long z_stride0_) {
    const unsigned thread = threadIdx.x;
    // gpu.launch([%M, %N]) {blocks = [4, 64], threads = 64}  // <text>:6
    const unsigned N_blocks_ = (N_ + 63) / 64;
    const unsigned program = blockIdx.x;
    const long long m_ = (long long)(program / N_blocks_) * 4;
    const long long n_ = (long long)(program % N_blocks_) * 64;
    // %rows = tile.map([%M, %m]) {fn = sub}  // <text>:7
    const long long rows_ = sub_i64(M_, m_);
    // %columns = tile.map([%N, %n]) {fn = sub}  // <text>:8
    const long long columns_ = sub_i64(N_, n_);
    // %at = tile.map([%n, %by]) {fn = add}  // <text>:9
    const long long at_ = add_i64(n_, 131ll);
    // <text>:10
    const float* const x_at_ = x_ + (m_ * x_stride0_ + at_ + (int)thread);
    const int rows_extent_ = limited(rows_, 4);
    const int first = limited(-at_, 64);
    const unsigned count = (unsigned)(limited(N_ - at_, 64) - first);
    float a_[4];
    if (count != 0) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            read_float_if(&a_[v], x_at_ + (v * x_stride0_), v < rows_extent_ && (unsigned)((int)thread - first) < count, 0);
        }
    }
    else {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            read_float_if(&a_[v], x_at_ + (v * x_stride0_), false, 0);
        }
    }
    // gpu.store(%z, [%m, %n], %a, [%rows, %columns]) {axes = [0, 1], masked = [0, 1]}  // <text>:12
    float* const z_at_ = z_ + (m_ * z_stride0_ + n_ + (int)thread);
    const int columns_extent_ = limited(columns_, 64);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        store_float_if(z_at_ + (v * z_stride0_), &a_[v], v < rows_extent_ && (int)thread < columns_extent_);
    }
}
