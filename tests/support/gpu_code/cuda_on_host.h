// What CUDA C needs in order to run on a CPU: the threads of a cluster take turns as fibers of one thread, and go on to
// the next one wherever they wait for each other. Written for tests: simple, and strict about alignment.
// One source that defines ON_HOST_RUNTIME has what runs them, so that it is not compiled with every program.
#include <cmath>
#include <cstdio>
#include <cstdint>
#include <cstring>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>
#include <ucontext.h>

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct longlong2 { long long x, y; };
struct ulonglong2 { unsigned long long x, y; };

struct Meeting { int arrived = 0; long long generation = 0; };
struct Copy { unsigned char* to; unsigned char data[16]; int size; };
struct Warp { Meeting meeting; unsigned long long words[32][8]; };
using Work = std::vector<std::function<void()>>;
struct Block {
    Meeting meeting, named[16], groups[8];
    const void* fragments[1024];
    std::vector<unsigned char> room;
    unsigned char* shared = nullptr;
    std::vector<Warp> warps;
};
struct Fiber {
    ucontext_t context;
    unsigned thread = 0;  // in its block
    unsigned block = 0;   // in its cluster
    long long arrived = 0;
    bool done = false;
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
    Work bulk_open, products_open;
    std::deque<Work> bulk_groups, product_groups;
};

#ifdef ON_HOST_RUNTIME
#define STATE
#else
#define STATE extern
#endif
STATE ucontext_t scheduler_;
STATE Fiber* fiber_;
STATE std::vector<Block> blocks_;
STATE Meeting cluster_;
STATE unsigned threads_, cluster_size_, first_block_, grid_;
STATE long long progress_;
STATE std::deque<std::function<void()>> under_way_;  // what goes on by itself

[[noreturn]] static void failed(const char* what) {
    std::fprintf(stderr, "cuda_on_host: %s (block %u, thread %u)\n", what, first_block_ + fiber_->block, fiber_->thread);
    std::abort();
}
static void give_way() { swapcontext(&fiber_->context, &scheduler_); }
static void meet(Meeting& meeting, int size) {
    long long generation = meeting.generation;
    ++progress_;
    if (++meeting.arrived == size) {
        meeting.arrived = 0;
        ++meeting.generation;
        return;
    }
    while (meeting.generation == generation) give_way();
}

struct Dim3 { unsigned x, y, z; };
#define threadIdx (Dim3{fiber_->thread, 0, 0})
#define blockIdx (Dim3{first_block_ + fiber_->block, 0, 0})
#define blockDim (Dim3{threads_, 1, 1})
#define gridDim (Dim3{grid_, 1, 1})
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __cluster_dims__(x, y, z)
#define __restrict__

static Block& block_() { return blocks_[fiber_->block]; }
static Warp& warp_() { return block_().warps[fiber_->thread / 32]; }
static void meet_warp() { meet(warp_().meeting, threads_ - fiber_->thread / 32 * 32 < 32 ? threads_ % 32 : 32); }
static void __threadfence_system() {}
static void __syncwarp() { meet_warp(); }
static void __syncthreads() { meet(block_().meeting, threads_); }

template <class T> static T word_as(unsigned long long word) { T x; std::memcpy(&x, &word, sizeof x); return x; }
template <class T> static unsigned long long as_word(T x) {
    unsigned long long word = 0;
    std::memcpy(&word, &x, sizeof x);
    return word;
}
template <class T> static T exchange_(T x, int lane) {
    if constexpr (std::is_same_v<T, bool>) return exchange_((int)x, lane) != 0;
    else {
        Warp& warp = warp_();
        warp.words[fiber_->thread % 32][0] = as_word(x);
        meet_warp();
        T found = word_as<T>(warp.words[lane & 31][0]);
        meet_warp();
        return found;
    }
}
static int lane_() { return fiber_->thread % 32; }
template <class T> static T __shfl_xor_sync(unsigned, T x, int d) { return exchange_(x, lane_() ^ d); }
template <class T> static T __shfl_sync(unsigned, T x, int lane) { return exchange_(x, lane); }
template <class T> static T __shfl_up_sync(unsigned, T x, int d) { return exchange_(x, lane_() >= d ? lane_() - d : lane_()); }
template <class T> static T __shfl_down_sync(unsigned, T x, int d) { return exchange_(x, lane_() + d < 32 ? lane_() + d : lane_()); }
template <class T, class F> static T fold_warp_(T x, F fold) {
    for (int d = 1; d < 32; d *= 2) x = fold(x, exchange_(x, lane_() ^ d));
    return x;
}
template <class A, class B> static std::common_type_t<A, B> min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static std::common_type_t<A, B> max(A a, B b) { return a > b ? a : b; }
template <class T> static T __reduce_add_sync(unsigned, T x) { return fold_warp_(x, [](T a, T b) { return (T)((unsigned)a + (unsigned)b); }); }
template <class T> static T __reduce_max_sync(unsigned, T x) { return fold_warp_(x, [](T a, T b) { return max(a, b); }); }
template <class T> static T __reduce_min_sync(unsigned, T x) { return fold_warp_(x, [](T a, T b) { return min(a, b); }); }

static unsigned address_(const void* pointer) { return (unsigned)((const unsigned char*)pointer - block_().shared); }
#define __cvta_generic_to_shared(pointer) address_(pointer)
static unsigned char* pointer_(unsigned address, int size) {
    if (address % size) failed("a misaligned access of shared memory");
    return block_().shared + address;
}
static void check_aligned_(const void* pointer, int size) {
    if ((std::uintptr_t)pointer % size) failed("a misaligned access of global memory");
}

// Matrices

static void read_matrices_(unsigned* to, unsigned row, int count, bool transposed) {
    Warp& warp = warp_();
    warp.words[lane_()][0] = row;
    meet_warp();
    for (int i = 0; i < count; ++i) {
        for (int e = 0; e < 2; ++e) {
            int r = transposed ? 2 * (lane_() % 4) + e : lane_() / 4, c = transposed ? lane_() / 4 : 2 * (lane_() % 4) + e;
            unsigned short bits;
            std::memcpy(&bits, pointer_((unsigned)warp.words[8 * i + r][0], 16) + 2 * c, 2);
            to[i] = e ? to[i] | (unsigned)bits << 16 : bits;
        }
    }
    meet_warp();
}
static void write_matrices_(unsigned row, const unsigned* from, int count, bool transposed) {
    Warp& warp = warp_();
    warp.words[lane_()][0] = row;
    meet_warp();
    for (int i = 0; i < count; ++i) {
        for (int e = 0; e < 2; ++e) {
            int r = transposed ? 2 * (lane_() % 4) + e : lane_() / 4, c = transposed ? lane_() / 4 : 2 * (lane_() % 4) + e;
            unsigned short bits = (unsigned short)(from[i] >> 16 * e);
            std::memcpy(pointer_((unsigned)warp.words[8 * i + r][0], 16) + 2 * c, &bits, 2);
        }
    }
    meet_warp();
}

// Asynchronous copies: they happen when they are waited for

static void copy_(unsigned to, const void* from, int size, bool inside) {
    Copy copy{pointer_(to, size), {}, size};
    check_aligned_(from, size);
    if (inside) std::memcpy(copy.data, from, size);
    fiber_->open.push_back(copy);
}
static void commit_() {
    fiber_->groups.push_back(fiber_->open);
    fiber_->open.clear();
}
static void wait_(int groups) {
    while ((int)fiber_->groups.size() > groups) {
        for (Copy& copy : fiber_->groups[0]) std::memcpy(copy.to, copy.data, copy.size);
        fiber_->groups.erase(fiber_->groups.begin());
    }
}

// Clusters

static void cluster_arrive_() {
    fiber_->arrived = cluster_.generation;
    ++progress_;
    if (++cluster_.arrived == (int)(threads_ * cluster_size_)) {
        cluster_.arrived = 0;
        ++cluster_.generation;
    }
}
static void cluster_wait_() {
    while (cluster_.generation == fiber_->arrived) give_way();
}
// A barrier that counts arrivals and bytes: a phase ends when all of them are there
enum { BARRIER_MADE = 0x155 };
struct Barrier {
    long long bytes : 26, lacking : 13, count : 13, parity : 2, made : 10;
    void end_phase() {
        ++progress_;
        if (lacking || bytes) return;
        lacking = count, parity ^= 1;
    }
};
static_assert(sizeof(Barrier) == 8, "as large as on a GPU");
static Barrier new_barrier_(int arrivals) { return Barrier{0, arrivals, arrivals, 0, BARRIER_MADE}; }
static Barrier* barrier_(unsigned address) {
    Barrier* barrier = (Barrier*)pointer_(address, 8);
    if (barrier->made != BARRIER_MADE) failed("a barrier that was not made");
    return barrier;
}
static void expect_bytes_(unsigned address, unsigned bytes) {
    Barrier* barrier = barrier_(address);
    if (barrier->lacking < 1) failed("a barrier is told twice what to expect");
    --barrier->lacking, barrier->bytes += (int)bytes;
    barrier->end_phase();
}
static void wait_for_bytes_(unsigned address, unsigned parity) {
    while (barrier_(address)->parity == (int)parity) give_way();
}
template <class T> static void send_to_peer_(T* place, unsigned address, unsigned peer, T value) {
    if (address_(place) % sizeof value || sizeof value < 4) failed("a value that cannot be sent");
    std::memcpy(blocks_[peer].shared + address_(place), &value, sizeof value);
    Barrier* barrier = (Barrier*)(blocks_[peer].shared + address);
    if (barrier->made != BARRIER_MADE) failed("a barrier of bytes that was not made");
    barrier->bytes -= (int)sizeof value;
    barrier->end_phase();
}

// Atomics and bits

template <class T, class U> static T atomicAdd(T* place, U x) { T before = *place; *place = (T)(before + x); return before; }
template <class T, class U> static T atomicMax(T* place, U x) { T before = *place; *place = max(before, (T)x); return before; }
template <class T, class U> static T atomicMin(T* place, U x) { T before = *place; *place = min(before, (T)x); return before; }
template <class T, class U> static T atomicAnd(T* place, U x) { T before = *place; *place = before & (T)x; return before; }
template <class T, class U> static T atomicOr(T* place, U x) { T before = *place; *place = before | (T)x; return before; }
template <class T, class U> static T atomicXor(T* place, U x) { T before = *place; *place = before ^ (T)x; return before; }
template <class T, class U> static T atomicExch(T* place, U x) { T before = *place; *place = (T)x; return before; }
template <class T, class U, class V> static T atomicCAS(T* place, U expected, V wanted) {
    T before = *place;
    if (before == (T)expected) *place = (T)wanted;
    return before;
}
static unsigned __float_as_uint(float x) { return word_as<unsigned>(as_word(x)); }
static float __uint_as_float(unsigned x) { return word_as<float>(x); }
static int __float_as_int(float x) { return word_as<int>(as_word(x)); }
static float __int_as_float(int x) { return word_as<float>(as_word(x)); }
static long long __double_as_longlong(double x) { return word_as<long long>(as_word(x)); }
static double __longlong_as_double(long long x) { return word_as<double>(x); }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
static unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned word = 0;
    for (int byte = 0; byte < 4; ++byte) word |= (unsigned)(both >> 8 * (selector >> 4 * byte & 7) & 0xff) << 8 * byte;
    return word;
}
template <class T, class F> static T cut_off_(F x, F low, F high) {
    if (x != x) return 0;
    if (x <= low) return std::is_signed_v<T> ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0;
    if (x >= high) return std::is_signed_v<T> ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)~(T)0;
    return (T)x;
}
#define CUT_OFF(suffix, type, low, high) \
    static type __float2##suffix(float x) { return cut_off_<type, float>(x, low, high); } \
    static type __double2##suffix(double x) { return cut_off_<type, double>(x, low, high); }
CUT_OFF(int_rz, int, -0x1p31, 0x1p31)
CUT_OFF(uint_rz, unsigned, 0, 0x1p32)
CUT_OFF(ll_rz, long long, -0x1p63, 0x1p63)
CUT_OFF(ull_rz, unsigned long long, 0, 0x1p64)
static float __double2float_rz(double x) {
    float y = (float)x;
    return std::fabs((double)y) > std::fabs(x) ? std::nextafterf(y, 0.0f) : y;
}
static float __fdividef(float a, float b) { return a / b; }
#define __logf logf
#define __log2f log2f
static float rsqrtf(float x) { return (float)(1.0 / std::sqrt((double)x)); }
static double rsqrt(double x) { return 1.0 / std::sqrt(x); }

// A float of few bits: `mantissa` of them, normal from 2 ** least on, `largest` the bits of the largest number
static unsigned narrow_bits_(float x, int mantissa, int least, unsigned largest, unsigned beyond, unsigned nan, int width) {
    if (x != x) return nan;
    unsigned sign = std::signbit(x) ? 1u << (width - 1) : 0u;
    if (std::isinf(x)) return sign | beyond;
    if (x == 0.0f) return sign;
    int exponent;
    std::frexp(std::fabs(x), &exponent);
    exponent = max(exponent - 1, least);
    double units = std::nearbyint(std::ldexp(std::fabs((double)x), mantissa - exponent));
    unsigned bits = (unsigned)((exponent - least) << mantissa) + (unsigned)units;
    return sign | (bits > largest ? beyond : bits);
}
static float half_value_(unsigned bits) {
    unsigned exponent = bits >> 10 & 31u;
    float mantissa = (float)(bits & 1023u);
    float size = exponent == 31 ? (bits & 1023u ? NAN : INFINITY) : exponent ? std::ldexp(mantissa + 1024.0f, (int)exponent - 25) : std::ldexp(mantissa, -24);
    return bits & 0x8000u ? -size : size;
}
static unsigned half_bits_(float x) { return narrow_bits_(x, 10, -14, 0x7bffu, 0x7c00u, 0x7e00u, 16); }
static unsigned bfloat_bits_(float x) {
    unsigned a = __float_as_uint(x);
    return x != x ? 0x7fffu : (a + 0x7fffu + (a >> 16 & 1u)) >> 16;
}
static unsigned half_of_e4m3_(unsigned byte) {
    unsigned exponent = byte >> 3 & 15u, sign = (byte & 0x80u) << 8;
    if ((byte & 0x7fu) == 0x7fu) return sign | 0x7e00u;
    float size = exponent ? std::ldexp((float)(byte & 7u) + 8.0f, (int)exponent - 10) : std::ldexp((float)(byte & 7u), -9);
    return sign | half_bits_(size);
}
static float e4m3_value_(unsigned byte) { return half_value_(half_of_e4m3_(byte)); }

// Running

#ifndef ON_HOST_RUNTIME
void run_(long long grid, unsigned threads, unsigned cluster, unsigned shared, const std::function<void()>& body);
#else
static std::function<void()> body_;

static void enter_() {
    body_();
    fiber_->done = true;
    ++progress_;
    give_way();
}
void run_(long long grid, unsigned threads, unsigned cluster, unsigned shared, const std::function<void()>& body) {
    static const size_t stack = 512 * 1024;
    std::vector<std::unique_ptr<char[]>> stacks;  // not filled: a page is there once a fiber has come to it
    threads_ = threads, cluster_size_ = cluster, grid_ = (unsigned)grid, body_ = body;
    while (stacks.size() < (size_t)threads * cluster) stacks.emplace_back(new char[stack]);
    for (first_block_ = 0; first_block_ < grid; first_block_ += cluster) {
        blocks_.assign(cluster, Block());
        cluster_ = Meeting();
        for (Block& block : blocks_) {
            block.room.assign(shared + 2048, 0xff);
            block.shared = block.room.data() + 1024 - (std::uintptr_t)block.room.data() % 1024;
            block.warps.resize((threads + 31) / 32);
        }
        std::vector<Fiber> fibers(threads * cluster);
        for (unsigned i = 0; i < fibers.size(); ++i) {
            Fiber& fiber = fibers[i];
            fiber.thread = i % threads, fiber.block = i / threads;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = stacks[i].get();
            fiber.context.uc_stack.ss_size = stack;
            fiber.context.uc_link = nullptr;
            makecontext(&fiber.context, enter_, 0);
        }
        for (bool any = true; any;) {
            any = false;
            long long before = progress_;
            for (Fiber& fiber : fibers) {
                if (fiber.done) continue;
                any = true;
                fiber_ = &fiber;
                swapcontext(&scheduler_, &fiber.context);
            }
            if (any && progress_ == before) {
                if (!under_way_.empty()) {
                    under_way_.front()();
                    under_way_.pop_front();
                    continue;
                }
                // one more round: what was met in this one shows in the next
                static int idle = 0;
                if (++idle > 1000) failed("threads wait for each other forever");
            }
        }
    }
}
#endif
