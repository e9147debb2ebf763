// 1 / x; 1 unit off at most
__device__ __forceinline__ float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// a / b; 2 units off at most, for numbers of any size
__device__ __forceinline__ float div_approx(float a, float b) {
    // the reciprocal of what is too small would be infinite, that of what is too large 0; one of many a is found once
    float size = fabsf(b), scale = size < 1.1754944e-38f ? 4294967296.0f : size > 8.507059e37f ? 0.0625f : 1.0f;
    return a * scale * reciprocal_approx(b * scale);
}

// 2 to the x; 2 units off at most
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// e to the x, for results of 16 bits
__device__ __forceinline__ float exp_approx(float x) {
    return exp2_approx(x * 1.442695f);
}

// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// the bf16 in the low half of a word
__device__ __forceinline__ float low_bf16(unsigned word) {
    return __uint_as_float(word << 16);
}

// the larger of two; NaN if either is
__device__ __forceinline__ float max_f32(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// two values rounded to bf16, in one word
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// 16 bytes of global memory, or `fill` where they are not inside
__device__ __forceinline__ void read_uint4_if(unsigned* to, const void* from, bool inside, unsigned fill) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6; mov.b32 %3, %6; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(from), "r"((int)inside), "r"(fill));
}

// 16 bytes to global memory, where they are inside
__device__ __forceinline__ void store_uint4_if(void* to, const unsigned* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p st.global.v4.b32 [%0], {%1, %2, %3, %4}; }"
                 :: "l"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"((int)inside) : "memory");
}

extern "C" __global__ void __launch_bounds__(256) softmax_(
    const unsigned short* __restrict__ x_,
    unsigned short* __restrict__ y_,
    long long N_,
    long long x_stride0_,
    long long y_stride0_) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const unsigned thread = threadIdx.x;
    const int column = thread * 8;
    // gpu.launch([%M]) {blocks = [1], threads = 256, shared_bytes = 64}  // <text>:5
    const long long m_ = (long long)(blockIdx.x);
    // %row = gpu.load(%x, [%m, %zero], [%N]) {axes = [0, 1], masked = [1], vector = 8, shape = [1, 4096], layout = local(1, 2) * spatial(1, 256) * local(1, 8)}  // <text>:11
    const unsigned short* const x_at_ = x_ + (m_ * x_stride0_ + column);
    const int N_extent_ = limited(N_, 4096);
    unsigned row_[8];
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        read_uint4_if(&row_[4 * v], x_at_ + (v * 2048), column + v * 2048 < N_extent_, 0);
    }
    // %wide = tile.cast(%row) {dtype = f32} : tile<f32, [1, 4096], register, local(1, 2) * spatial(1, 256) * local(1, 8)>  // <text>:12
    float wide_[16];
    float padded_[16];
    #pragma unroll
    for (int s = 0; s < 16; ++s) {
        wide_[s] = low_bf16(row_[s / 2] >> 16 * (s % 2));
        // %padded = gpu.pad(%wide, [%N], %lowest) {axes = [1]}  // <text>:13
        const int left = N_extent_ - column;
        padded_[s] = s / 8 * 2048 < left ? wide_[s] : __uint_as_float(0xff800000u /* -inf */);
    }
    // %top = gpu.reduce([%padded], %s1) {axes = [1], fn = max, keepdims = true}  // <text>:14
    float top_[1];
    float part[4] = {padded_[0], padded_[1], padded_[2], padded_[3]};
    #pragma unroll
    for (int j = 4; j < 16; ++j) {
        part[j % 4] = max_f32(part[j % 4], padded_[j]);
    }
    top_[0] = max_f32(max_f32(part[0], part[1]), max_f32(part[2], part[3]));
    #pragma unroll
    for (int d = 16; d >= 1; d /= 2) {
        top_[0] = max_f32(top_[0], __shfl_xor_sync(0xffffffffu, top_[0], d));
    }
    float* const top_of_warps_ = reinterpret_cast<float*>(shared_memory);
    const int position = thread / 32 % 8;
    if (thread % 32 == 0) {
        top_of_warps_[position] = top_[0];
    }
    __syncthreads();
    top_[0] = top_of_warps_[thread % 8];
    #pragma unroll
    for (int d = 4; d >= 1; d /= 2) {
        top_[0] = max_f32(top_[0], __shfl_xor_sync(0xffffffffu, top_[0], d));
    }
    // %d = tile.map([%wide, %tops]) {fn = sub} : tile<f32, [1, 4096], register, local(1, 2) * spatial(1, 256) * local(1, 8)>  // <text>:16
    float e_[16];
    float e0_[16];
    #pragma unroll
    for (int s = 0; s < 16; ++s) {
        const float d_ = wide_[s] - top_[0];
        // %e = tile.map([%d]) {fn = exp} : tile<f32, [1, 4096], register, local(1, 2) * spatial(1, 256) * local(1, 8)>  // <text>:17
        e_[s] = exp_approx(d_);
        // %e0 = gpu.pad(%e, [%N], %nil) {axes = [1]}  // <text>:18
        const int left_1 = N_extent_ - column;
        e0_[s] = s / 8 * 2048 < left_1 ? e_[s] : 0.0f;
    }
    // %total = gpu.reduce([%e0], %s2) {axes = [1], fn = add, keepdims = true}  // <text>:19
    float total_[1];
    float part_1[4] = {e0_[0], e0_[1], e0_[2], e0_[3]};
    #pragma unroll
    for (int j = 4; j < 16; ++j) {
        part_1[j % 4] = (part_1[j % 4] + e0_[j]);
    }
    total_[0] = ((part_1[0] + part_1[1]) + (part_1[2] + part_1[3]));
    #pragma unroll
    for (int d = 16; d >= 1; d /= 2) {
        total_[0] = (total_[0] + __shfl_xor_sync(0xffffffffu, total_[0], d));
    }
    float* const total_of_warps_ = reinterpret_cast<float*>(shared_memory + 32);
    const int position_1 = thread / 32 % 8;
    if (thread % 32 == 0) {
        total_of_warps_[position_1] = total_[0];
    }
    __syncthreads();
    total_[0] = total_of_warps_[thread % 8];
    #pragma unroll
    for (int d = 4; d >= 1; d /= 2) {
        total_[0] = (total_[0] + __shfl_xor_sync(0xffffffffu, total_[0], d));
    }
    // %q = tile.map([%e, %totals]) {fn = div} : tile<f32, [1, 4096], register, local(1, 2) * spatial(1, 256) * local(1, 8)>  // <text>:21
    unsigned n_[8];
    #pragma unroll
    for (int w = 0; w < 8; ++w) {
        float n_part_[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int slot = 2 * w + i;
            const float q_ = div_approx(e_[slot], total_[0]);
            // %n = tile.cast(%q) {dtype = bf16} : tile<bf16, [1, 4096], register, local(1, 2) * spatial(1, 256) * local(1, 8)>  // <text>:22
            n_part_[i] = q_;
        }
        n_[w] = pack_bf16(n_part_[0], n_part_[1]);
    }
    // gpu.store(%y, [%m, %zero], %n, [%N]) {axes = [0, 1], masked = [1], vector = 8}  // <text>:23
    unsigned short* const y_at_ = y_ + (m_ * y_stride0_ + column);
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        store_uint4_if(y_at_ + (v * 2048), &n_[4 * v], column + v * 2048 < N_extent_);
    }
}
