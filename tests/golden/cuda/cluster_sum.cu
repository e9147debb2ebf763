// says that this thread is here, and what it wrote is done
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// waits until all threads of the cluster have arrived
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// all threads of the cluster arrive before any goes on
__device__ __forceinline__ void cluster_barrier() {
    cluster_arrive();
    cluster_wait();
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

// An extent as an int of at most `most`
__device__ __forceinline__ int limited(long long extent, int most) {
    return extent < 0 ? 0 : extent > most ? most : (int)extent;
}

// the address of something in shared memory, within shared memory
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// 4 bytes to global memory, where they are inside
__device__ __forceinline__ void store_float_if(void* to, const float* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.b32 [%0], %1; }"
                 :: "l"(to), "f"(from[0]), "r"((int)inside) : "memory");
}

// writes to the same place in the shared memory of another block of the cluster
__device__ __forceinline__ void store_to_peer_f32(float* place, unsigned peer, float value) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(place)), "r"(peer));
    asm volatile("st.shared::cluster.b32 [%0], %1;" :: "r"(address), "f"(value) : "memory");
}

// 16 bytes of global memory, or `fill` where they are not inside
__device__ __forceinline__ void stream_float4_if(float* to, const void* from, bool inside, float fill) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6; mov.b32 %3, %6; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from), "r"((int)inside), "f"(fill));
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64) cluster_sum(
    const float* __restrict__ x,
    float* __restrict__ y,
    long long N,
    long long x_stride0) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const unsigned rank = cluster_rank();
    const unsigned thread = rank * 64u + threadIdx.x;
    const int column = thread * 4;
    cluster_begin();
    const bool is_first = thread % 32 == 0 && thread / 32 % 2 == 0 && thread / 64 == 0;
    // gpu.launch([%M]) {blocks = [1], threads = 64, cluster = 4, shared_bytes = 32}  // <text>:5
    const unsigned program = blockIdx.x / 4;
    const long long m = (long long)program;
    // %row = gpu.load(%x, [%m, %zero], [%N]) {axes = [0, 1], masked = [1], vector = 4, shape = [1, 1024], layout = spatial(1, 256) * local(1, 4)}  // <text>:8
    const float* const x_at = x + (m * x_stride0 + column);
    const int N_extent = limited(N, 1024);
    float row[4];
    stream_float4_if(row, x_at, column < N_extent, 0);
    // %total = gpu.reduce([%row], %partials) {axes = [1], fn = add}  // <text>:9
    float total[1];
    total[0] = row[0];
    #pragma unroll
    for (int j = 1; j < 4; ++j) {
        total[0] = (total[0] + row[j]);
    }
    #pragma unroll
    for (int d = 16; d >= 1; d /= 2) {
        total[0] = (total[0] + __shfl_xor_sync(0xffffffffu, total[0], d));
    }
    float* const total_of_warps = reinterpret_cast<float*>(shared_memory);
    const int position = threadIdx.x / 32 % 2;
    if (threadIdx.x % 32 == 0) {
        total_of_warps[position] = total[0];
    }
    __syncthreads();
    total[0] = total_of_warps[0];
    #pragma unroll
    for (int p = 1; p < 2; ++p) {
        total[0] = (total[0] + total_of_warps[p]);
    }
    float* const total_of_blocks = reinterpret_cast<float*>(shared_memory + 16);
    cluster_wait();  // all blocks of the cluster have begun
    const int own_part = rank % 4;
    const unsigned first_peer = rank - (rank / 1 % 4 * 1);
    if (threadIdx.x % 32 == 0 && threadIdx.x / 32 % 2 == 0) {
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            store_to_peer_f32(&total_of_blocks[own_part], first_peer + p, total[0]);
        }
    }
    cluster_barrier();
    total[0] = total_of_blocks[0];
    #pragma unroll
    for (int p = 1; p < 4; ++p) {
        total[0] = (total[0] + total_of_blocks[p]);
    }
    // gpu.store(%y, [%m], %total, []) {axes = [0]}  // <text>:10
    float* const y_at = y + m;
    store_float_if(y_at, total, is_first);
}
