// lets the next kernel begin, which waits for the end of this one where it must
__device__ __forceinline__ void let_next_begin() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
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

// waits until the kernels before this one are done, and sees what they wrote
__device__ __forceinline__ void wait_for_earlier() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256) total_(float* __restrict__ y_) {
    let_next_begin();
    // %y = tile.empty(%start) {shape = [], dtype = f32}  // <text>:3
    const long long count = 1;
    const float fill = 0.5f;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long step = (long long)gridDim.x * blockDim.x;
    struct alignas(16) Piece {
        float elements[4];
    };
    Piece piece;
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
        piece.elements[e] = fill;
    }
    for (long long p = first; p < count / 4; p += step) {
        reinterpret_cast<Piece*>(y_)[p] = piece;
    }
    if (first < count % 4) {
        y_[count - 1 - first] = fill;
    }
}

extern "C" __global__ void __launch_bounds__(64) total_1_(
    const float* __restrict__ x_,
    float* __restrict__ y_,
    long long N_,
    long long x_stride0_) {
    const unsigned thread = threadIdx.x;
    const int column = thread * 4;
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const bool is_first = thread % 32 == 0 && thread / 32 == 0;
    // gpu.launch([%M]) {blocks = [1], threads = 64, shared_bytes = 8}  // <text>:6
    const long long m_ = (long long)(blockIdx.x);
    // %row = gpu.load(%x, [%m, %zero], [%N]) {axes = [0, 1], masked = [1], vector = 4, shape = [1, 256], layout = spatial(1, 64) * local(1, 4)}  // <text>:8
    const float* const x_at_ = x_ + (m_ * x_stride0_ + column);
    const int N_extent_ = limited(N_, 256);
    float row_[4];
    read_float4_if(row_, x_at_, column < N_extent_, 0);
    // %sum = gpu.reduce([%row], %partials) {axes = [0, 1], fn = add}  // <text>:10
    float sum_[1];
    sum_[0] = row_[0];
    #pragma unroll
    for (int j = 1; j < 4; ++j) {
        sum_[0] = (sum_[0] + row_[j]);
    }
    #pragma unroll
    for (int d = 16; d >= 1; d /= 2) {
        sum_[0] = (sum_[0] + __shfl_xor_sync(0xffffffffu, sum_[0], d));
    }
    float* const sum_of_warps_ = reinterpret_cast<float*>(shared_memory);
    const int position = thread / 32 % 2;
    if (thread % 32 == 0) {
        sum_of_warps_[position] = sum_[0];
    }
    __syncthreads();
    sum_[0] = sum_of_warps_[0];
    #pragma unroll
    for (int p = 1; p < 2; ++p) {
        sum_[0] = (sum_[0] + sum_of_warps_[p]);
    }
    const float sum_value_ = sum_[0];
    wait_for_earlier();
    // %before = gpu.atomic(%y, [], %one, []) {fn = add, axes = []}  // <text>:12
    if (is_first) atomicAdd((float *)(y_), sum_value_);
}
