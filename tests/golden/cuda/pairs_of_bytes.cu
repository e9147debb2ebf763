// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// the low bytes of four words in one word
__device__ __forceinline__ unsigned pack_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
    return __byte_perm(__byte_perm(a, b, 0x0040u), __byte_perm(c, d, 0x0040u), 0x5410u);
}

// 16 bits of global memory, or `fill` where they are not inside
__device__ __forceinline__ unsigned read_bits16_if(const void* from, bool inside, unsigned fill) {
    unsigned short bits;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b16 %0, %3; @p ld.global.nc.b16 %0, [%1]; }"
                 : "=h"(bits) : "l"(from), "r"((int)inside), "h"((unsigned short)fill));
    return bits;
}

// 2 bytes to global memory, where they are inside
__device__ __forceinline__ void store_bits16_if(void* to, unsigned bits, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.b16 [%0], %1; }"
                 :: "l"(to), "h"((unsigned short)bits), "r"((int)inside) : "memory");
}

extern "C" __global__ void __launch_bounds__(32) pairs_(
    const signed char* __restrict__ x_,
    const unsigned char* __restrict__ seen_,
    signed char* __restrict__ y_,
    long long W_,
    long long x_stride0_,
    long long seen_stride0_,
    long long y_stride0_) {
    const unsigned thread = threadIdx.x;
    const int row = thread / 4;
    const int column = thread % 4 * 2;
    // gpu.launch([%one]) {blocks = [1], threads = 32}  // <text>:7
    const long long p_ = (long long)(blockIdx.x);
    // %a = gpu.load(%x, [%zero, %zero], [%W], %low) {axes = [0, 1], masked = [1], vector = 2, shape = [16, 16], layout = local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)}  // <text>:8
    const signed char* const x_at_ = x_ + (row * x_stride0_ + column);
    const int W_extent_ = limited(W_, 16);
    unsigned a_[2];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        a_[(2 * v) / 4] = ((2 * v) % 4 == 0 ? 0u : a_[(2 * v) / 4]) | read_bits16_if(x_at_ + ((v % 2 * 8) * x_stride0_ + v / 2 * 8), column + v / 2 * 8 < W_extent_, ((unsigned)(-7) & 0xffu) * 0x0101u) << (2 * v) % 4 * 8;
    }
    // %s = gpu.load(%seen, [%zero, %zero], [%W], %no) {axes = [0, 1], masked = [1], vector = 2, shape = [16, 16], layout = local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)}  // <text>:9
    const unsigned char* const seen_at_ = seen_ + (row * seen_stride0_ + column);
    bool s_[8];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        const unsigned s_pair_ = read_bits16_if(seen_at_ + ((v % 2 * 8) * seen_stride0_ + v / 2 * 8), column + v / 2 * 8 < W_extent_, (unsigned)true * 0x0101u);
        s_[2 * v] = (s_pair_ & 0xffu) != 0;
        s_[2 * v + 1] = s_pair_ >> 8 != 0;
    }
    // %r = tile.map([%s, %a, %low]) {fn = where} : tile<i8, [16, 16], register, local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>  // <text>:10
    unsigned r_[2];
    #pragma unroll
    for (int w = 0; w < 2; ++w) {
        int r_part_[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int slot = 4 * w + i;
            r_part_[i] = s_[slot] ? ((int)(signed char)(a_[w] >> 8 * i)) : (-7);
        }
        r_[w] = pack_bytes(r_part_[0], r_part_[1], r_part_[2], r_part_[3]);
    }
    // gpu.store(%y, [%zero, %zero], %r, [%W]) {axes = [0, 1], masked = [1], vector = 2}  // <text>:11
    signed char* const y_at_ = y_ + (row * y_stride0_ + column);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        store_bits16_if(y_at_ + ((v % 2 * 8) * y_stride0_ + v / 2 * 8), r_[(2 * v) / 4] >> (2 * v) % 4 * 8, column + v / 2 * 8 < W_extent_);
    }
}
