// the address of something in shared memory, within shared memory
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// makes two barriers, each of which waits for one `expect_bytes` and as many bytes as that says
__device__ __forceinline__ void begin_arrivals(void* barriers) {
    const unsigned address = shared_address(barriers);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address + 8u) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// says that this thread is here, and nothing of what it wrote
__device__ __forceinline__ void cluster_begin() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// the number of this block in its cluster
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// waits until all threads of the cluster have arrived
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// tells a barrier how many bytes other blocks will write
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// 16 bytes of global memory, or `fill` where they are not inside
__device__ __forceinline__ void read_float4_if(float* to, const void* from, bool inside, float fill) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6; mov.b32 %3, %6; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from), "r"((int)inside), "f"(fill));
}

// writes to the same place in another block of the cluster, whose barrier counts the bytes when they are there
__device__ __forceinline__ void send_to_peer_f32(float* place, unsigned barrier, unsigned peer, float value) {
    unsigned address, counter;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(place)), "r"(peer));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(barrier), "r"(peer));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :: "r"(address), "f"(value), "r"(counter) : "memory");
}

// 4 bytes to global memory, where they are inside
__device__ __forceinline__ void store_float_if(void* to, const float* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.b32 [%0], %1; }"
                 :: "l"(to), "f"(from[0]), "r"((int)inside) : "memory");
}

// waits until all bytes that a barrier expects are there; `parity` is that of how often it was waited for before
__device__ __forceinline__ void wait_for_bytes(unsigned barrier, unsigned parity) {
    unsigned complete;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(complete) : "r"(barrier), "r"(parity) : "memory");
    } while (!complete);
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64) cluster_sum_(
    const float* __restrict__ x_,
    float* __restrict__ y_,
    long long N_,
    long long x_stride0_) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const unsigned rank = cluster_rank();
    const unsigned thread = rank * 64u + threadIdx.x;
    const int column = thread * 4;
    if (threadIdx.x == 0) {
        begin_arrivals(shared_memory);
    }
    cluster_begin();
    const unsigned shared_base = shared_address(shared_memory);
    const bool is_first = thread % 32 == 0 && thread / 32 % 2 == 0 && thread / 64 == 0;
    // gpu.launch([%M]) {blocks = [1], threads = 64, cluster = 4, shared_bytes = 80}  // <text>:5
    const unsigned program = blockIdx.x / 4;
    const long long m_ = (long long)program;
    // %row = gpu.load(%x, [%m, %zero], [%N]) {axes = [0, 1], masked = [1], vector = 4, shape = [1, 1024], layout = spatial(1, 256) * local(1, 4)}  // <text>:8
    const float* const x_at_ = x_ + (m_ * x_stride0_ + column);
    const int N_extent_ = limited(N_, 1024);
    float row_[4];
    read_float4_if(row_, x_at_, column < N_extent_, 0);
    // %total = gpu.reduce([%row], %partials) {axes = [1], fn = add}  // <text>:9
    float total_[1];
    total_[0] = row_[0];
    #pragma unroll
    for (int j = 1; j < 4; ++j) {
        total_[0] = (total_[0] + row_[j]);
    }
    #pragma unroll
    for (int d = 16; d >= 1; d /= 2) {
        total_[0] = (total_[0] + __shfl_xor_sync(0xffffffffu, total_[0], d));
    }
    const unsigned arrivals = shared_base;
    if (threadIdx.x == 0) expect_bytes(arrivals, 16u);
    float* const total_of_warps_ = reinterpret_cast<float*>(shared_memory + 16);
    const int position = threadIdx.x / 32 % 2;
    if (threadIdx.x % 32 == 0) {
        total_of_warps_[position] = total_[0];
    }
    __syncthreads();
    total_[0] = total_of_warps_[0];
    #pragma unroll
    for (int p = 1; p < 2; ++p) {
        total_[0] = (total_[0] + total_of_warps_[p]);
    }
    float* const total_of_blocks_ = reinterpret_cast<float*>(shared_memory + 32);
    const int own_part = rank % 4;
    const unsigned first_peer = rank - (rank / 1 % 4 * 1);
    cluster_wait();  // all blocks have made their barriers
    if (threadIdx.x < 4) {
        send_to_peer_f32(&total_of_blocks_[own_part], arrivals, first_peer + threadIdx.x, total_[0]);
    }
    wait_for_bytes(arrivals, 0u);
    total_[0] = total_of_blocks_[0];
    #pragma unroll
    for (int p = 1; p < 4; ++p) {
        total_[0] = (total_[0] + total_of_blocks_[p]);
    }
    // gpu.store(%y, [%m], %total, []) {axes = [0]}  // <text>:10
    float* const y_at_ = y_ + m_;
    store_float_if(y_at_, total_, is_first);
}
