// 8 bytes to global memory
__device__ __forceinline__ void store_float2(void* to, const float* from) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(to), "f"(from[0]), "f"(from[1]) : "memory");
}

extern "C" __global__ void __launch_bounds__(32) distances_(float* __restrict__ y_, long long y_stride0_) {
    const unsigned thread = threadIdx.x;
    const int element = thread % 4 * 2;
    const int row = thread / 4;
    // gpu.launch([%one]) {blocks = [1], threads = 32}  // <text>:5
    const long long p_ = (long long)(blockIdx.x);
    // %a = tile.cast(%apart) {dtype = f32}  // <text>:6
    const float a_ = (float)1000ll;
    // %counted = gpu.arange() {layout = replicate(8) * local(2) * spatial(4) * local(2)}  // <text>:7
    float c_[4];
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        const long long counted_ = (long long)(element + s / 2 * 8 + s % 2);
        // %narrow = tile.cast(%counted) {dtype = i32} : tile<i32, [16], register, replicate(8) * local(2) * spatial(4) * local(2)>  // <text>:8
        const int narrow_ = (int)counted_;
        // %c = tile.cast(%narrow) {dtype = f32} : tile<f32, [16], register, replicate(8) * local(2) * spatial(4) * local(2)>  // <text>:9
        const float counted = (float)element;
        c_[s] = counted + (float)(s / 2 * 8 + s % 2);
    }
    // %d = tile.map([%a, %columns]) {fn = sub} : tile<f32, [16, 16], register, local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>  // <text>:11
    float d_[8];
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        d_[s] = a_ - c_[s / 4 * 2 + s % 2];
    }
    // gpu.store(%y, [%zero, %zero], %d, []) {axes = [0, 1], vector = 2}  // <text>:12
    float* const y_at_ = y_ + (row * y_stride0_ + element);
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        store_float2(y_at_ + ((v % 2 * 8) * y_stride0_ + v / 2 * 8), &d_[2 * v]);
    }
}
