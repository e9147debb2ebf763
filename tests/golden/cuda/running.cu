// the larger of two; NaN if either is
__device__ __forceinline__ float max_f32(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// 16 bytes of global memory
__device__ __forceinline__ void read_float4(float* to, const void* from) {
    asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from));
}

// 16 bytes to global memory
__device__ __forceinline__ void store_float4(void* to, const float* from) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" :: "l"(to), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]) : "memory");
}

// 8 bytes to global memory, where they are inside
__device__ __forceinline__ void store_longlong_if(void* to, const long long* from, bool inside) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.b64 [%0], %1; }"
                 :: "l"(to), "l"(from[0]), "r"((int)inside) : "memory");
}

// keeps the larger of two values and where it stands: NaN before all, and the first of equals
__device__ __forceinline__ void take_larger_f32(float& value, int& index, float other, int other_index) {
    const bool better = (other > value) | ((other != other) & (value == value));
    const bool same = (other == value) | ((other != other) & (value != value));
    const bool taken = better | (same & (other_index < index));
    value = taken ? other : value;
    index = taken ? other_index : index;
}

extern "C" __global__ void __launch_bounds__(128) running_(
    const float* __restrict__ x_,
    float* __restrict__ y_,
    long long* __restrict__ at_) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const unsigned thread = threadIdx.x;
    const int element = thread * 4;
    const bool is_first = thread % 32 == 0 && thread / 32 == 0;
    // gpu.launch([%one]) {blocks = [1], threads = 128, shared_bytes = 64}  // <text>:5
    const long long p_ = (long long)(blockIdx.x);
    // %values = gpu.load(%x, [%zero], []) {axes = [0], vector = 4, shape = [512], layout = spatial(128) * local(4)}  // <text>:9
    const float* const x_at_ = x_ + element;
    float values_[4];
    read_float4(values_, x_at_);
    // %sums = gpu.scan([%values], %totals) {axis = 0, fn = add}  // <text>:10
    float sums_[4];
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        sums_[s] = values_[s];
    }
    #pragma unroll
    for (int j = 1; j < 4; ++j) {
        sums_[j] = (sums_[(j - 1)] + sums_[j]);
    }
    const int lane_position = thread % 32;
    float sums_total_[1];
    sums_total_[0] = sums_[3];
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        float before = __shfl_up_sync(0xffffffffu, sums_total_[0], d);
        if (lane_position >= d) {
            sums_total_[0] = (before + sums_total_[0]);
        }
    }
    const int warp_position = thread / 32 % 4;
    float* const sums_of_warps_ = reinterpret_cast<float*>(shared_memory);
    if (lane_position == 31) {
        sums_of_warps_[(0) * 4 + 0 + warp_position] = sums_total_[0];
    }
    __syncthreads();
    {
        float prefix = -0.0f;
        #pragma unroll
        for (int p = 0; p < 3; ++p) {
            float before_1 = p < warp_position ? sums_of_warps_[(0) * 4 + 0 + p] : -0.0f;
            before_1 = (prefix + before_1);
            prefix = before_1;
        }
        float before_2 = __shfl_up_sync(0xffffffffu, sums_total_[0], 1);
        float before_3 = lane_position > 0 ? before_2 : -0.0f;
        before_3 = (prefix + before_3);
        prefix = before_3;
        {
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums_[j] = (prefix + sums_[j]);
            }
        }
    }
    // %place = gpu.reduce([%sums], %extremes) {axes = [0], fn = argmax, keepdims = true}  // <text>:11
    float extreme[1];
    int place_[1];
    extreme[0] = sums_[0];
    #pragma unroll
    for (int j = 1; j < 4; ++j) {
        extreme[0] = max_f32(extreme[0], sums_[j]);
    }
    place_[0] = 3;
    #pragma unroll
    for (int j = 1; j < 4; ++j) {
        place_[0] = !(sums_[j * -1 + 3] < extreme[0]) ? j * -1 + 3 : place_[0];
    }
    if (extreme[0] != extreme[0]) {
        place_[0] = 3;
        #pragma unroll
        for (int j = 1; j < 4; ++j) {
            place_[0] = sums_[j * -1 + 3] != sums_[j * -1 + 3] ? j * -1 + 3 : place_[0];
        }
    }
    place_[0] += element;
    #pragma unroll
    for (int d = 16; d >= 1; d /= 2) {
        take_larger_f32(extreme[0], place_[0], __shfl_xor_sync(0xffffffffu, extreme[0], d), __shfl_xor_sync(0xffffffffu, place_[0], d));
    }
    float* const extreme_of_warps_ = reinterpret_cast<float*>(shared_memory + 32);
    int* const place_of_warps_ = reinterpret_cast<int*>(shared_memory + 48);
    const int position = thread / 32 % 4;
    if (thread % 32 == 0) {
        extreme_of_warps_[position] = extreme[0];
        place_of_warps_[position] = place_[0];
    }
    __syncthreads();
    if (thread / 32 % 4 == 0) {
        extreme[0] = extreme_of_warps_[0];
        place_[0] = place_of_warps_[0];
        #pragma unroll
        for (int p = 1; p < 4; ++p) {
            take_larger_f32(extreme[0], place_[0], extreme_of_warps_[p], place_of_warps_[p]);
        }
    }
    long long place_1_[1];
    place_1_[0] = (long long)place_[0];
    // gpu.store(%y, [%zero], %sums, []) {axes = [0], vector = 4}  // <text>:12
    float* const y_at_ = y_ + element;
    store_float4(y_at_, sums_);
    // gpu.store(%at, [%zero], %place, []) {axes = [0]}  // <text>:13
    store_longlong_if(at_, place_1_, is_first);
}
