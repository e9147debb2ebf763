// where a tensor is, and what a box of it is; only the hardware knows more
struct __align__(64) TensorMap {
    unsigned long long words[16];
};

// arrives at an mbarrier of this block; what this thread did before is done
__device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

// makes `count` mbarriers side by side, a phase of which is over after that many arrivals
__device__ __forceinline__ void begin_mbarriers(unsigned barriers, int count, int arrivals) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barriers + i * 8u), "r"(arrivals) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// makes a group of this thread's copies by TMA to global memory so far
__device__ __forceinline__ void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// waits until this thread's copies are done
__device__ __forceinline__ void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// whether this is the one lane of its warp that does what only one does; all lanes ask at once
__device__ __forceinline__ bool elect_lane() {
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected != 0;
}

// tells a barrier how many bytes other blocks will write
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// what this thread did in shared memory is done before what TMA and tensor cores do next
__device__ __forceinline__ void fence_shared_proxies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Rounded down; 0 if the divisor is 0
__device__ __forceinline__ long long floor_div(long long a, long long b) {
    if (b == 0) return 0;
    const long long q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

// a // b rounded down; 0 where b is 0
__device__ __forceinline__ long long floordiv_i64(long long a, long long b) {
    if (b == 0)
        return 0;
    if (b == -1)
        return (long long)-(unsigned long long)a;
    long long quotient = a / b, rest = a % b;
    return rest != 0 && (rest ^ b) < 0 ? quotient - 1 : quotient;
}

// these registers are there now
__device__ __forceinline__ void landed_float_32(float* x) {
    asm volatile("" : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]), "+f"(x[7]), 
        "+f"(x[8]), "+f"(x[9]), "+f"(x[10]), "+f"(x[11]), "+f"(x[12]), "+f"(x[13]), "+f"(x[14]), "+f"(x[15]), 
        "+f"(x[16]), "+f"(x[17]), "+f"(x[18]), "+f"(x[19]), "+f"(x[20]), "+f"(x[21]), "+f"(x[22]), "+f"(x[23]), 
        "+f"(x[24]), "+f"(x[25]), "+f"(x[26]), "+f"(x[27]), "+f"(x[28]), "+f"(x[29]), "+f"(x[30]), "+f"(x[31]) :: "memory");
}

// the descriptor of an operand that begins at an address; `fixed` is all else of it. Addresses have the number of their block in the cluster too, which is no part of it
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned address, unsigned long long fixed) {
    unsigned long long descriptor;
    unsigned low = (unsigned)fixed | (address & 0x3ffff) >> 4;
    asm("mov.b64 %0, {%1, %2};" : "=l"(descriptor) : "r"(low), "r"((unsigned)(fixed >> 32)));
    return descriptor;
}

// a % b with the sign of b; 0 where b is 0
__device__ __forceinline__ long long mod_i64(long long a, long long b) {
    if (b == 0 || b == -1)
        return 0;
    long long rest = a % b;
    return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}

// a * b, wrapping
__device__ __forceinline__ long long mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

// two values rounded to bf16, in one word
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// fetches a tensor map, which will be needed soon
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

// the address of something in shared memory, within shared memory
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// an offset with the bits of the mask XORed with those `shift` above
__device__ __forceinline__ unsigned swizzled(unsigned offset, unsigned shift, unsigned mask) {
    return offset ^ ((offset >> shift) & mask);
}

// waits at a barrier of the block for 128 threads
__device__ __forceinline__ void sync_barrier_1_of_128() {
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

// begins to copy a box into shared memory, where an mbarrier counts the bytes
__device__ __forceinline__ void tma_load_2(
    unsigned to, const void* map, unsigned barrier, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(to), "l"(map), "r"(barrier), "r"(c0), "r"(c1) : "memory");
}

// begins to copy a box from shared memory
__device__ __forceinline__ void tma_store_2(const void* map, unsigned from, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(from), "r"(c0), "r"(c1) : "memory");
}

// waits until the kernels before this one are done, and sees what they wrote
__device__ __forceinline__ void wait_for_earlier() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// waits until the phase of that parity is over
__device__ __forceinline__ void wait_for_phase(unsigned barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
    } while (!over);
}

// makes a group of the products so far
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// registers that were written are seen by the products that follow
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// acc += a b: 64 x 64 x 16, by a warpgroup, in flight
__device__ __forceinline__ void wgmma_m64n64k16_bf16_f32(float* acc, unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]), 
          "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]), 
          "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), 
          "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31])
        : "l"(a), "l"(b));
}

// acc = a b, added to acc where `onto`: 64 x 64 x 16, by a warpgroup, in flight
__device__ __forceinline__ void wgmma_m64n64k16_bf16_f32_if(float* acc, unsigned long long a, unsigned long long b, bool onto) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0; }"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]), 
          "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]), 
          "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), 
          "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31])
        : "l"(a), "l"(b), "r"((int)onto));
}

// waits for products
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// 4 8 x 8 matrices of 16 bits; lane 8i + r gives the address of row r of matrix i
__device__ __forceinline__ void write_matrices_4(unsigned row, const unsigned* from) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(row), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory");
}

extern "C" __global__ void __launch_bounds__(160, 1) gemm_roles_(
    const __grid_constant__ TensorMap out_map_,
    const __grid_constant__ TensorMap a_map_,
    const __grid_constant__ TensorMap b_map_,
    long long K_,
    long long N_) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const unsigned shared_base = __shfl_sync(0xffffffffu, shared_address(shared_memory), 0);
    const unsigned thread = threadIdx.x;
    const unsigned warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    if (threadIdx.x == 0) prefetch_tensor_map(&out_map_);
    if (threadIdx.x == 0) prefetch_tensor_map(&a_map_);
    if (threadIdx.x == 0) prefetch_tensor_map(&b_map_);
    // gpu.launch([%M, %N]) {blocks = [64, 64], threads = 160, shared_bytes = 41984}  // <text>:10
    const unsigned N_blocks_ = (N_ + 63) / 64;
    const unsigned program = blockIdx.x;
    const long long m_ = (long long)(program / N_blocks_) * 64;
    const long long n_ = (long long)(program % N_blocks_) * 64;
    // %full = gpu.mbarriers() {count = 2, arrivals = 1, offset = 32768}  // <text>:13
    if (threadIdx.x == 0) begin_mbarriers(shared_base + 32768, 2, 1);
    // %empty = gpu.mbarriers() {count = 2, arrivals = 4, offset = 32784}  // <text>:14
    if (threadIdx.x == 0) begin_mbarriers(shared_base + 32784, 2, 4);
    // gpu.barrier()  // <text>:16
    __syncthreads();
    wait_for_earlier();
    // gpu.role() {first = 0, threads = 128}  // <text>:18
    if (warp < 4) {
        const unsigned thread_1 = threadIdx.x;
        const unsigned row_thread = thread_1 - thread_1 % 32 + (thread_1 % 32 % 8 * 4);
        const unsigned at = swizzled((unsigned)(row_thread / 32 * 16 + row_thread / 4 % 8 + (thread_1 % 32 / 8 % 4) % 2 * 8) * 128u + (unsigned)(row_thread % 4 * 2 + (thread_1 % 32 / 8 % 4) / 2 * 8) * 2u, 3, 0x70);
        const unsigned warp_1 = __shfl_sync(0xffffffffu, thread_1 / 32, 0);
        // %total = tile.for(%0, %steps, %1, [%start])  // <text>:21
        float acc_[32];
        #pragma unroll
        for (int s = 0; s < 32; ++s) {
            acc_[s] = 1000.0f;
        }
        #pragma unroll 1
        for (long long i_ = 0ll; i_ < (floor_div(K_ + 63, 64)); i_ += 1ll) {
            // %stage = tile.map([%i, %2]) {fn = mod}  // <text>:22
            const long long stage_ = mod_i64(i_, 2ll);
            // %turn = tile.map([%i, %2]) {fn = floordiv}  // <text>:23
            const long long turn_ = floordiv_i64(i_, 2ll);
            // %parity = tile.map([%turn, %2]) {fn = mod}  // <text>:24
            const long long parity_ = mod_i64(turn_, 2ll);
            // gpu.mbarrier_wait(%full, %stage, %parity)  // <text>:26
            wait_for_phase(shared_base + (unsigned)stage_ * 8u + 32768, (unsigned)parity_);
            // gpu.wgmma_fence()  // <text>:27
            wgmma_fence();
            // %more = tile.map([%i, %0]) {fn = ne}  // <text>:28
            const bool more_ = i_ != 0ll;
            // <text>:29
            const unsigned a_at = shared_base + (unsigned)stage_ * 8192u;
            const unsigned long long a_descriptor = matrix_descriptor(a_at, 0x4000004000010000ull);
            const unsigned b_at = shared_base + (unsigned)stage_ * 8192u + 16384;
            const unsigned long long b_descriptor = matrix_descriptor(b_at, 0x4000004000010000ull);
            wgmma_m64n64k16_bf16_f32_if(acc_, a_descriptor, b_descriptor, more_);
            wgmma_m64n64k16_bf16_f32(acc_, a_descriptor + 2, b_descriptor + 2);
            wgmma_m64n64k16_bf16_f32(acc_, a_descriptor + 4, b_descriptor + 4);
            wgmma_m64n64k16_bf16_f32(acc_, a_descriptor + 6, b_descriptor + 6);
            // gpu.wgmma_commit()  // <text>:31
            wgmma_commit();
            // %landed = gpu.wgmma_wait([%next]) {groups = 0}  // <text>:32
            wgmma_wait();
            landed_float_32(acc_);
            // gpu.mbarrier_arrive(%empty, %stage) {by = warp}  // <text>:33
            __syncwarp();
            if (thread_1 % 32 == 0) arrive(shared_base + (unsigned)stage_ * 8u + 32784);
        }
        // %narrow = tile.cast(%total) {dtype = bf16} : tile<bf16, [64, 64], register, spatial(4, 1) * local(1, 8) * local(2, 1) * spatial(8, 4) * local(1, 2)>  // <text>:36
        unsigned narrow_[16];
        #pragma unroll
        for (int w = 0; w < 16; ++w) {
            float narrow_part_[2];
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int slot = 2 * w + i;
                narrow_part_[i] = acc_[slot];
            }
            narrow_[w] = pack_bf16(narrow_part_[0], narrow_part_[1]);
        }
        // gpu.write(%cs, %narrow, [%0, %0]) {places = [0, 1], method = matrix}  // <text>:37
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            write_matrices_4(shared_base + (at ^ (v * 32)) + 33792, &narrow_[4 * v]);
        }
        // gpu.proxy_fence()  // <text>:38
        fence_shared_proxies();
        // gpu.named_barrier() {id = 1, threads = 128}  // <text>:39
        sync_barrier_1_of_128();
        // <text>:40
        if (warp_1 == 0 && elect_lane()) {
            const unsigned box = shared_base + 33792;
            const int start = (int)n_;
            const int start_1 = (int)m_;
            tma_store_2(&out_map_, box, start, start_1);
        }
        // gpu.bulk_commit()  // <text>:42
        if (warp_1 == 0 && elect_lane()) bulk_commit();
        // gpu.bulk_wait() {groups = 0}  // <text>:43
        if (warp_1 == 0 && elect_lane()) bulk_wait();
    }
    // gpu.role() {first = 128, threads = 32}  // <text>:45
    if (warp >= 4) {
        const bool issues = elect_lane();
        // tile.for(%0, %steps, %1, [])  // <text>:46
        #pragma unroll 1
        for (long long i_1_ = 0ll; i_1_ < (floor_div(K_ + 63, 64)); i_1_ += 1ll) {
            // %stage = tile.map([%i, %2]) {fn = mod}  // <text>:47
            const long long stage_1_ = mod_i64(i_1_, 2ll);
            // %turn = tile.map([%i, %2]) {fn = floordiv}  // <text>:48
            const long long turn_1_ = floordiv_i64(i_1_, 2ll);
            // %parity = tile.map([%turn, %2]) {fn = mod}  // <text>:49
            const long long parity_1_ = mod_i64(turn_1_, 2ll);
            // %other = tile.map([%parity, %1]) {fn = xor}  // <text>:50
            const long long other_ = parity_1_ ^ 1ll;
            // gpu.mbarrier_wait(%empty, %stage, %other)  // <text>:51
            wait_for_phase(shared_base + (unsigned)stage_1_ * 8u + 32784, (unsigned)other_);
            // gpu.mbarrier_expect(%full, %stage) {bytes = 16384}  // <text>:52
            if (issues) expect_bytes(shared_base + (unsigned)stage_1_ * 8u + 32768, 16384u);
            // %k = tile.map([%i, %64]) {fn = mul}  // <text>:53
            const long long k_ = mul_i64(i_1_, 64ll);
            // <text>:54
            if (issues) {
                const unsigned box_1 = shared_base + (unsigned)stage_1_ * 8192u;
                const int start_2 = (int)k_;
                const int start_3 = (int)m_;
                tma_load_2(box_1, &a_map_, shared_base + (unsigned)stage_1_ * 8u + 32768, start_2, start_3);
            }
            // <text>:56
            if (issues) {
                const unsigned box_2 = shared_base + (unsigned)stage_1_ * 8192u + 16384;
                const int start_4 = (int)k_;
                const int start_5 = (int)n_;
                tma_load_2(box_2, &b_map_, shared_base + (unsigned)stage_1_ * 8u + 32768, start_4, start_5);
            }
        }
    }
}
