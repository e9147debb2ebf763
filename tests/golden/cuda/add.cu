// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// 16 bytes of global memory, or `fill` where they are not inside
__device__ __forceinline__ void read_float4_if(float* to, const void* from, bool inside, float fill) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6; mov.b32 %3, %6; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from), "r"((int)inside), "f"(fill));
}

// 16 bytes to global memory, where they are inside
__device__ __forceinline__ void store_float4_if(void* to, const float* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p st.global.v4.b32 [%0], {%1, %2, %3, %4}; }"
                 :: "l"(to), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]), "r"((int)inside) : "memory");
}

// a - b, wrapping
__device__ __forceinline__ long long sub_i64(long long a, long long b) {
    return (long long)((unsigned long long)a - (unsigned long long)b);
}

extern "C" __global__ void __launch_bounds__(64) add_(
    const float* __restrict__ x_,
    const float* __restrict__ y_,
    float* __restrict__ z_,
    long long M_,
    long long N_,
    long long x_stride0_,
    long long y_stride0_,
    long long z_stride0_) {
    const unsigned thread = threadIdx.x;
    const int row = thread / 16;
    const int column = thread % 16 * 4;
    // gpu.launch([%M, %N]) {blocks = [32, 64], threads = 64}  // <text>:5
    const unsigned N_blocks_ = (N_ + 63) / 64;
    const unsigned program = blockIdx.x;
    const long long m_ = (long long)(program / N_blocks_) * 32;
    const long long n_ = (long long)(program % N_blocks_) * 64;
    // %rows = tile.map([%M, %m]) {fn = sub}  // <text>:6
    const long long rows_ = sub_i64(M_, m_);
    // %columns = tile.map([%N, %n]) {fn = sub}  // <text>:7
    const long long columns_ = sub_i64(N_, n_);
    // <text>:8
    const float* const x_at_ = x_ + ((m_ + row) * x_stride0_ + n_ + column);
    const int rows_extent_ = limited(rows_, 32);
    const int columns_extent_ = limited(columns_, 64);
    float a_[32];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        read_float4_if(&a_[4 * v], x_at_ + ((v * 4) * x_stride0_), row + v * 4 < rows_extent_ && column < columns_extent_, 0);
    }
    // <text>:10
    const float* const y_at_ = y_ + ((m_ + row) * y_stride0_ + n_ + column);
    float b_[32];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        read_float4_if(&b_[4 * v], y_at_ + ((v * 4) * y_stride0_), row + v * 4 < rows_extent_ && column < columns_extent_, 0);
    }
    // %c = tile.map([%a, %b]) {fn = add} : tile<f32, [32, 64], register, local(8, 1) * spatial(4, 16) * local(1, 4)>  // <text>:12
    float c_[32];
    #pragma unroll
    for (int s = 0; s < 32; ++s) {
        c_[s] = a_[s] + b_[s];
    }
    // gpu.store(%z, [%m, %n], %c, [%rows, %columns]) {axes = [0, 1], masked = [0, 1], vector = 4}  // <text>:13
    float* const z_at_ = z_ + ((m_ + row) * z_stride0_ + n_ + column);
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        store_float4_if(z_at_ + ((v * 4) * z_stride0_), &c_[4 * v], row + v * 4 < rows_extent_ && column < columns_extent_);
    }
}
