// a + b, wrapping
__device__ __forceinline__ long long add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}

// makes a group of the copies so far
__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// begins to copy 16 bytes from global to shared memory, or zeros where they are not inside
__device__ __forceinline__ void copy_16_alone_if(unsigned to, const void* from, bool inside) {
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

// begins to copy 16 bytes from global to shared memory, or zeros where they are not inside
__device__ __forceinline__ void copy_16_if(unsigned to, const void* from, bool inside) {
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// acc += a b: 16 x 8 x 16, by a warp
__device__ __forceinline__ void mma_m16n8k16_bf16_f32(float* acc, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 4 8 x 8 matrices of 16 bits; lane 8i + r gives the address of row r of matrix i
__device__ __forceinline__ void read_matrices_4(unsigned* to, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}

// 4 8 x 8 matrices of 16 bits; lane 8i + r gives the address of row r of matrix i
__device__ __forceinline__ void read_matrices_4_transposed(unsigned* to, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
}

// the address of something in shared memory, within shared memory
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// 8 bytes to global memory, where they are inside
__device__ __forceinline__ void store_float2_if(void* to, const float* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; @p st.global.v2.b32 [%0], {%1, %2}; }"
                 :: "l"(to), "f"(from[0]), "f"(from[1]), "r"((int)inside) : "memory");
}

// a - b, wrapping
__device__ __forceinline__ long long sub_i64(long long a, long long b) {
    return (long long)((unsigned long long)a - (unsigned long long)b);
}

// an offset with the bits of the mask XORed with those `shift` above
__device__ __forceinline__ unsigned swizzled(unsigned offset, unsigned shift, unsigned mask) {
    return offset ^ ((offset >> shift) & mask);
}

// waits for this thread's copies, but for the last 1 groups
__device__ __forceinline__ void wait_for_copies_but_1() {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128) gemm_(
    const unsigned short* __restrict__ a_,
    const unsigned short* __restrict__ b_,
    float* __restrict__ c_,
    long long K_,
    long long M_,
    long long N_,
    long long a_stride0_,
    long long b_stride0_,
    long long c_stride0_) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const unsigned thread = threadIdx.x;
    const int row = thread / 4;
    const int column = thread % 4 * 8;
    const unsigned at = swizzled((unsigned)row * 64u + (unsigned)column * 2u, 3, 0x30);
    const unsigned shared_base = shared_address(shared_memory);
    const int row_1 = thread / 8;
    const int column_1 = thread % 8 * 8;
    const unsigned at_1 = swizzled((unsigned)row_1 * 128u + (unsigned)column_1 * 2u, 3, 0x70);
    const unsigned row_thread = thread - thread % 32 + (thread % 32 % 8 * 4);
    const unsigned at_2 = swizzled((unsigned)(row_thread / 64 * 32 + row_thread / 4 % 8 + (thread % 32 / 8 % 4) % 2 * 8) * 64u + (unsigned)(row_thread % 4 * 2 + (thread % 32 / 8 % 4) / 2 * 8) * 2u, 3, 0x30);
    const unsigned row_thread_1 = thread - thread % 32 + (thread % 32 % 8 / 2);
    const unsigned at_3 = swizzled((unsigned)(row_thread_1 % 4 * 2 + (thread % 32 / 8 % 4) % 2 * 8 + thread % 32 % 2 * 1) * 128u + (unsigned)(row_thread_1 / 32 % 2 * 32 + row_thread_1 / 4 % 8 + (thread % 32 / 8 % 4) / 2 * 8) * 2u, 3, 0x70);
    const int row_2 = thread / 64 * 32 + thread / 4 % 8;
    const int column_2 = thread / 32 % 2 * 32 + thread % 4 * 2;
    // gpu.launch([%M, %N]) {blocks = [64, 64], threads = 128, shared_bytes = 16384}  // <text>:10
    const unsigned N_blocks_ = (N_ + 63) / 64;
    const unsigned program = blockIdx.x;
    const long long m_ = (long long)(program / N_blocks_) * 64;
    const long long n_ = (long long)(program % N_blocks_) * 64;
    // %rows = tile.map([%M, %m]) {fn = sub}  // <text>:11
    const long long rows_ = sub_i64(M_, m_);
    // %columns = tile.map([%N, %n]) {fn = sub}  // <text>:12
    const long long columns_ = sub_i64(N_, n_);
    // <text>:17
    const unsigned short* const a_at_ = a_ + ((m_ + row) * a_stride0_ + column);
    const int rows_extent_ = limited(rows_, 64);
    const int K_extent_ = limited(K_, 32);
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        copy_16_alone_if(shared_base + at + v * 2048, a_at_ + ((v * 32) * a_stride0_), row + v * 32 < rows_extent_ && column < K_extent_);
    }
    // <text>:19
    const unsigned short* const b_at_ = b_ + (row_1 * b_stride0_ + n_ + column_1);
    const int columns_extent_ = limited(columns_, 64);
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        copy_16_if(shared_base + at_1 + v * 2048 + 8192, b_at_ + ((v * 16) * b_stride0_), row_1 + v * 16 < K_extent_ && column_1 < columns_extent_);
    }
    // gpu.commit()  // <text>:21
    commit_copies();
    // %total, %last = tile.for(%zero, %K, %step, [%start, %zero])  // <text>:22
    float acc_[32];
    #pragma unroll
    for (int s = 0; s < 32; ++s) {
        acc_[s] = 0.0f;
    }
    long long stage_ = 0ll;
    #pragma unroll 1
    for (long long k_ = 0ll; k_ < K_; k_ += 32ll) {
        // %next = tile.map([%k, %step]) {fn = add}  // <text>:24
        const long long next_ = add_i64(k_, 32ll);
        // %left = tile.map([%K, %next]) {fn = sub}  // <text>:25
        const long long left_ = sub_i64(K_, next_);
        // %other = tile.map([%one, %stage]) {fn = sub}  // <text>:26
        const long long other_ = sub_i64(1ll, stage_);
        // <text>:27
        const unsigned short* const a_at_1_ = a_ + ((m_ + row) * a_stride0_ + next_ + column);
        const int left_extent_ = limited(left_, 32);
        const unsigned from = (unsigned)other_ * 4096u;
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            copy_16_alone_if(shared_base + from + at + v * 2048, a_at_1_ + ((v * 32) * a_stride0_), row + v * 32 < rows_extent_ && column < left_extent_);
        }
        // <text>:29
        const unsigned short* const b_at_1_ = b_ + ((next_ + row_1) * b_stride0_ + n_ + column_1);
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            copy_16_if(shared_base + from + at_1 + v * 2048 + 8192, b_at_1_ + ((v * 16) * b_stride0_), row_1 + v * 16 < left_extent_ && column_1 < columns_extent_);
        }
        // gpu.commit()  // <text>:31
        commit_copies();
        // gpu.wait() {groups = 1}  // <text>:32
        wait_for_copies_but_1();
        // gpu.barrier()  // <text>:33
        __syncthreads();
        // <text>:34
        unsigned x_[16];
        const unsigned from_1 = (unsigned)stage_ * 4096u;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            read_matrices_4(&x_[4 * v], shared_base + from_1 + (at_2 ^ (v % 2 * 32)) + v / 2 * 1024);
        }
        // <text>:36
        unsigned y_[16];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            read_matrices_4_transposed(&y_[4 * v], shared_base + from_1 + (at_3 ^ (v % 2 * 32)) + v / 2 * 2048 + 8192);
        }
        // %sum = gpu.mma(%x, %y, %acc) {instruction = m16n8k16_bf16_f32}  // <text>:38
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mma_m16n8k16_bf16_f32(&acc_[i * 16 + j * 4], &x_[i * 8 + k * 4], &y_[k * 8 + j * 2]);
                }
            }
        }
        // gpu.barrier()  // <text>:39
        __syncthreads();
        stage_ = other_;
    }
    // gpu.store(%c, [%m, %n], %total, [%rows, %columns]) {axes = [0, 1], masked = [0, 1], vector = 2}  // <text>:42
    float* const c_at_ = c_ + ((m_ + row_2) * c_stride0_ + n_ + column_2);
    #pragma unroll
    for (int v = 0; v < 16; ++v) {
        store_float2_if(c_at_ + ((v / 8 * 16 + v % 2 * 8) * c_stride0_ + v / 2 % 4 * 8), &acc_[2 * v], row_2 + v / 8 * 16 + v % 2 * 8 < rows_extent_ && column_2 + v / 2 % 4 * 8 < columns_extent_);
    }
}
