// Mbarriers, TMA and products by warpgroups for `cuda_on_host.h`. What goes on by itself happens as late as it can: a
// load when nobody can go on without it, a store and a product when they are waited for.


static Barrier* remote_barrier_(unsigned address, unsigned block) {
    Barrier* barrier = (Barrier*)(blocks_[block].shared + address);
    if (address % 8 || barrier->made != BARRIER_MADE) failed("an mbarrier that was not made");
    return barrier;
}
static void begin_mbarriers_(unsigned address, int count, int arrivals) {
    for (int i = 0; i < count; ++i) {
        Barrier* barrier = (Barrier*)pointer_(address + 8 * i, 8);
        if (barrier->made == BARRIER_MADE) failed("an mbarrier is made twice");
        *barrier = new_barrier_(arrivals);
    }
}
static void end_mbarriers_(unsigned address, int count) {
    for (int i = 0; i < count; ++i) {
        if (remote_barrier_(address + 8 * i, fiber_->block)->bytes) failed("bytes are under way to an mbarrier that ends");
        std::memset(pointer_(address + 8 * i, 8), 0xff, 8);
    }
}
static void arrive_(unsigned address, unsigned block) {
    Barrier* barrier = remote_barrier_(address, block);
    if (!barrier->lacking) failed("more arrivals than a phase has");
    --barrier->lacking;
    barrier->end_phase();
}

static void named_barrier_(unsigned id, unsigned threads, bool waits) {
    static_assert(sizeof(Block::named) / sizeof(Meeting) == 16, "as many as a GPU has");
    Meeting& meeting = block_().named[id];
    if (waits) meet(meeting, (int)threads);
    else if (++progress_, ++meeting.arrived == (int)threads) meeting.arrived = 0, ++meeting.generation;
}

// TMA. What a launch would have the driver encode stands in a map as it is.

struct HostMap {
    unsigned long long address, rank, sizes[5], strides[4];
    unsigned short box[5];
    unsigned short swizzle, width;
};
static_assert(sizeof(HostMap) <= 128, "as large as on a GPU");

// Calls act(offset in shared memory, global pointer or null, bytes) for each element of a box
template <class F> static void for_box_(const HostMap& map, unsigned to, const int* start, F act) {
    int at[5] = {}, bits = map.swizzle == 128 ? 7 : map.swizzle == 64 ? 3 : map.swizzle == 32 ? 1 : 0;
    if (to % (map.swizzle ? 8 * map.swizzle : 128)) failed("a box at an address that its swizzle does not allow");
    for (unsigned linear = 0;; linear += map.width) {
        unsigned char* place = (unsigned char*)map.address;
        bool inside = true;
        for (unsigned axis = 0; axis < map.rank; ++axis) {
            long long coordinate = (long long)start[axis] + at[axis];
            inside = inside && coordinate >= 0 && coordinate < (long long)map.sizes[axis];
            place += coordinate * (axis ? (long long)map.strides[axis - 1] : map.width);
        }
        unsigned address = to + linear;
        act(address ^ ((address >> 7 & bits) << 4), inside ? place : nullptr, (int)map.width);
        unsigned axis = 0;
        while (axis < map.rank && ++at[axis] == map.box[axis]) at[axis++] = 0;
        if (axis == map.rank) return;
    }
}
static int bytes_of_(const HostMap& map) {
    int total = map.width;
    for (unsigned axis = 0; axis < map.rank; ++axis) total *= map.box[axis];
    return total;
}
template <class... C> static void tma_load_(unsigned to, const void* map, unsigned barrier, unsigned mask, C... start) {
    HostMap copied = *(const HostMap*)map;
    std::vector<int> from{start...};
    under_way_.push_back([=] {
        for (unsigned block = 0; block < blocks_.size(); ++block) {
            if (!(mask >> block & 1)) continue;
            for_box_(copied, to, from.data(), [&](unsigned offset, const unsigned char* place, int width) {
                unsigned char* target = blocks_[block].shared + offset;
                place ? (void)std::memcpy(target, place, width) : (void)std::memset(target, 0, width);
            });
            Barrier* counter = remote_barrier_(barrier, block);
            counter->bytes -= bytes_of_(copied);
            counter->end_phase();
        }
    });
}
static void send_to_block_(unsigned to, unsigned from, unsigned bytes, unsigned barrier, unsigned block) {
    if (to % 16 || from % 16 || bytes % 16) failed("a copy between blocks that is not of pieces of 16 bytes");
    unsigned own = fiber_->block;
    under_way_.push_back([=] {
        std::memcpy(blocks_[block].shared + to, blocks_[own].shared + from, bytes);
        Barrier* counter = remote_barrier_(barrier, block);
        counter->bytes -= (int)bytes;
        counter->end_phase();
    });
}
template <class... C> static void tma_store_(const void* map, unsigned from, C... start) {
    HostMap copied = *(const HostMap*)map;
    std::vector<int> to{start...};
    unsigned block = fiber_->block;
    fiber_->bulk_open.push_back([=] {
        for_box_(copied, from, to.data(), [&](unsigned offset, unsigned char* place, int width) {
            if (place) std::memcpy(place, blocks_[block].shared + offset, width);
        });
    });
}
static void commit_(Work& open, std::deque<Work>& groups) {
    groups.push_back(open);
    open.clear();
}
static void finish_(std::deque<Work>& groups, unsigned but) {
    while (groups.size() > but) {
        for (auto& act : groups.front()) act();
        groups.pop_front();
    }
}

// Products by warpgroups

struct Operand {
    unsigned long long descriptor;
    bool across;
    int width;
    const unsigned char* at(int outer, int k) const {
        unsigned first = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
        unsigned stride = (descriptor >> 32 & 0x3fff) << 4, mode = descriptor >> 62;
        unsigned run = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 16;
        unsigned bits = mode == 1 ? 7 : mode == 2 ? 3 : mode == 3 ? 1 : 0;
        unsigned slow = across ? k : outer, fast = (across ? outer : k) * width;
        unsigned address = first + slow / 8 * stride + slow % 8 * run + fast / run * leading + fast % run;
        return block_().shared + (address ^ ((address >> 7 & bits) << 4));
    }
};
static double element_(const void* place, const char* dtype) {
    unsigned word = 0;
    std::string name = dtype;
    std::memcpy(&word, place, name == "tf32" ? 4 : name == "f16" || name == "bf16" ? 2 : 1);
    if (name == "tf32") return __uint_as_float(word & 0xffffe000u);
    if (name == "bf16") return __uint_as_float(word << 16);
    if (name == "f16") return half_value_(word);
    if (name == "f8e4m3") return e4m3_value_(word);
    if (name == "f8e5m2") return half_value_(word << 8);
    return name == "i8" ? (double)(signed char)word : (double)word;
}
struct Product { int n, k, width; const char* dtype; };

// `left(row, k)` and `right(k, column)` give elements
template <class T, class L> static void multiply_(const Product& p, T* acc, bool half, L left, const Operand& b, bool onto) {
    int warp = fiber_->thread / 32 % 4, lane = lane_();
    std::vector<double> a(2 * p.k), columns(p.k);
    for (int rows = 0; rows < 2; ++rows)
        for (int k = 0; k < p.k; ++k) a[rows * p.k + k] = left(16 * warp + 8 * rows + lane / 4, k);
    for (int s = 0; s < p.n / 2; ++s) {
        int column = s / 4 * 8 + 2 * (lane % 4) + s % 2, rows = s / 2 % 2;
        double total = 0;
        for (int k = 0; k < p.k; ++k) total += a[rows * p.k + k] * element_(b.at(column, k), p.dtype);
        if (half) {
            unsigned word = as_word(acc[s / 2]), shift = s % 2 * 16;
            float sum = (float)total + (onto ? half_value_(word >> shift & 0xffffu) : 0.0f);
            acc[s / 2] = word_as<T>((word & ~(0xffffu << shift)) | half_bits_(sum) << shift);
        } else acc[s] = (T)(total + (onto ? (double)acc[s] : 0.0));
    }
}
template <class T> static void wgmma_(
    const Product& p, T* acc, bool half, unsigned long long a, bool a_across, unsigned long long b, bool b_across, bool onto) {
    Operand left{a, a_across, p.width}, right{b, b_across, p.width};
    fiber_->products_open.push_back([=] {
        multiply_(p, acc, half, [&](int row, int k) { return element_(left.at(row, k), p.dtype); }, right, onto);
    });
}
template <class T, class A> static void wgmma_(
    const Product& p, T* acc, bool half, const A* a, bool, unsigned long long b, bool b_across, bool onto) {
    Operand right{b, b_across, p.width};
    fiber_->products_open.push_back([=] {
        // the fragments of all lanes, as they are when the product is made
        Block& block = block_();
        unsigned group = fiber_->thread / 128;
        block.fragments[fiber_->thread] = a;
        meet(block.groups[group], 128);
        int word = 4 / p.width;
        multiply_(p, acc, half, [&](int row, int k) {
            int thread = group * 128 + row / 16 * 32 + row % 8 * 4 + k % (4 * word) / word;
            int slot = k / (4 * word) * 2 + row % 16 / 8;
            return element_((const unsigned char*)block.fragments[thread] + 4 * slot + k % word * p.width, p.dtype);
        }, right, onto);
        meet(block.groups[group], 128);
    });
}
static void wgmma_wait_(unsigned but) {
    meet(block_().groups[fiber_->thread / 128], 128);
    finish_(fiber_->product_groups, but);
    meet(block_().groups[fiber_->thread / 128], 128);
}
