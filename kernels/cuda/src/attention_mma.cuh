// Attention in bfloat16 with float32 sums, for heads of 64 and 128: the tiles that forward and backward share.
//
// A query row is a (query, head of the group) pair as in attention.cuh: row r of a list is query r / group and head
// r % group, so heads that share keys share their tiles. A block of threads takes a tile of consecutive rows of the list,
// whichever blocks or documents they belong to. Each row sees a range of the context's keys and, in block attention, a
// range of slots; the tile streams the union of the ranges and masks what a row does not see only where rows differ.
#pragma once
#include "attention.cuh"
#include "mma.cuh"

#define LOG2E 1.44269504f
#define LN2 0.69314718f

// Group is the number of query heads of a key head, with what a quick division by it needs: exact while r·n < 2^31.
struct Group {
    int n;
    u32 magic;

    __device__ explicit Group(int n) : n(n), magic((1u << 31) / n + 1) {}
    __device__ int query(int r) const { return (int)((u64)(u32)r * magic >> 31); }
};

// List is the query rows of one key head: n of them, from query `base` on.
struct List {
    int base, n, head, heads;
    Group group;

    // at is the number of row r among all (query, head) pairs of the tensors.
    __device__ i64 at(int r) const {
        int query = group.query(r);
        return (i64)(base + query) * heads + head * group.n + (r - query * group.n);
    }
};

// Range is the keys [lo, hi) that a row sees.
struct __align__(8) Range {
    int lo, hi;
};

__device__ inline int warp_min(int v) { return __reduce_min_sync(FULL_WARP, v); }
__device__ inline int warp_max(int v) { return __reduce_max_sync(FULL_WARP, v); }

// Spread is what several rows see together: some row sees a key in [lo, hi), and all rows see [all.lo, all.hi).
struct Spread {
    int lo, hi;
    Range all;

    // of takes one range a lane; `in` says whether the lane has one. Rows that see nothing do not widen [lo, hi).
    __device__ static Spread of(Range r, bool in) {
        bool some = in && r.lo < r.hi;
        Spread s = {warp_min(some ? r.lo : 0x7fffffff), warp_max(some ? r.hi : 0), {warp_max(in ? r.lo : 0), warp_min(in ? r.hi : 0x7fffffff)}};
        return s;
    }
    __device__ bool misses(int at, int keys) const { return at >= hi || at + keys <= lo; }
    __device__ bool covers(int at, int keys) const { return at >= all.lo && at + keys <= all.hi; }
    // pick avoids a copy in memory.
    __device__ static Spread pick(bool first, const Spread &a, const Spread &b) {
        Spread s = {first ? a.lo : b.lo, first ? a.hi : b.hi, {first ? a.all.lo : b.all.lo, first ? a.all.hi : b.all.hi}};
        return s;
    }
};

// Source is the keys and values of one key head, from row 0 on.
struct Source {
    const u16 *k, *v;
};

// load_rows starts the copy of rows [at, at + ROWS) into a tile; those from `end` on become zero.
template <int D, int ROWS, int THREADS> __device__ inline void load_rows(u32 tile, const u16 *src, int at, int end, int step) {
    const int chunks = D / 8, pass = THREADS / chunks;
    int c = threadIdx.x % chunks, r = threadIdx.x / chunks;
#pragma unroll
    for (int i = 0; i < ROWS; i += pass) {
        bool real = at + r + i < end;
        copy_async<16>(Mat<D>::at(tile, r + i, c), src + (real ? (i64)(at + r + i) * step + c * 8 : 0), real);
    }
}

// load_queries does the same for rows first.. of a list, from one tensor or from two of the same shape.
template <int D, int ROWS, int THREADS>
__device__ inline void load_queries(u32 tile, const u16 *src, u32 tile2, const u16 *src2, int first, const List &l) {
    const int chunks = D / 8, pass = THREADS / chunks;
    int c = threadIdx.x % chunks, r = threadIdx.x / chunks;
#pragma unroll
    for (int i = 0; i < ROWS; i += pass) {
        bool real = first + r + i < l.n;
        i64 from = real ? l.at(first + r + i) * D + c * 8 : 0;
        u32 to = Mat<D>::at(0, r + i, c);
        copy_async<16>(tile + to, src + from, real);
        if (src2) copy_async<16>(tile2 + to, src2 + from, real);
    }
}

// store_queries copies a warp's ROWS rows from a tile to rows first.. of a list.
template <int D, int ROWS> __device__ inline void store_queries(u16 *out, u32 tile, int row, int first, const List &l) {
    const int chunks = D / 8;
    __syncwarp();
#pragma unroll
    for (int i = lane_id(); i < ROWS * chunks; i += 32) {
        int r = row + i / chunks, c = i % chunks;
        if (first + r < l.n) *(uint4 *)(out + l.at(first + r) * D + c * 8) = read_chunk(Mat<D>::at(tile, r, c));
    }
}

// Keys is the sequence of key tiles that a tile of rows streams: KEYS at a time of the context's [from, to), then of the
// slots' [own_from, own_to). Rows of either are `step` elements apart.
template <int KEYS> struct Keys {
    Source context, own;
    int from, to, own_from, own_to, step;

    __device__ int context_tiles() const { return to > from ? (to - from + KEYS - 1) / KEYS : 0; }
    __device__ int tiles() const { return context_tiles() + (own_to > own_from ? (own_to - own_from + KEYS - 1) / KEYS : 0); }

    // at names the first key of tile i and whether it is a slot.
    __device__ int at(int i, bool &is_own) const {
        int n = context_tiles();
        is_own = i >= n;
        return is_own ? own_from + (i - n) * KEYS : from + i * KEYS;
    }

    template <int D, int THREADS> __device__ void load(u32 tile, int i, bool values) const {
        bool is_own;
        int first = at(i, is_own);
        const u16 *src = is_own ? (values ? own.v : own.k) : (values ? context.v : context.k);
        load_rows<D, KEYS, THREADS>(tile, src, first, is_own ? own_to : to, step);
    }
};

// context_range is what slot i of a list of blocks sees of the context.
__device__ inline Range context_range(const int2 *blocks, int i, int size, Heads h) {
    Sight s = sight(blocks[i / size], i % size, size, h);
    Range r = {s.lo, s.anchor};
    return r;
}

// own_range is the slots that slot i of a list of blocks sees, counted through all blocks.
__device__ inline Range own_range(int i, int size, int window) {
    int first = i / size * size;
    Range r = {first, window > 0 ? i + 1 : first + size};
    return r;
}

// block_keys fills the ranges of the rows first.. of a list over all blocks, those in the context and then those in the
// slots, and returns the keys to stream; a thread takes a row. Two numbers a warp follow the ranges. It ends with the
// ranges visible to the whole block of threads.
template <int D, int KEYS, int ROWS>
__device__ inline Keys<KEYS> block_keys(Range *ranges, const int2 *blocks, const List &l, int first, const u16 *kc, const u16 *vc,
                                        const u16 *kb, const u16 *vb, int size, Heads h) {
    Range none = {0, 0};
    int r = first + threadIdx.x, slot = l.group.query(r), last = min(first + ROWS, l.n) - 1, *ends = (int *)(ranges + 2 * ROWS);
    Range mine = r < l.n ? context_range(blocks, slot, size, h) : none;
    ranges[threadIdx.x] = mine;
    ranges[ROWS + threadIdx.x] = r < l.n ? own_range(slot, size, h.window) : none;
    Spread s = Spread::of(mine, true);
    if (lane_id() == 0) ends[2 * warp_id()] = s.lo, ends[2 * warp_id() + 1] = s.hi;
    __syncthreads();
    int from = ends[0], to = ends[1];
#pragma unroll
    for (int w = 1; w < ROWS / 32; w++) from = min(from, ends[2 * w]), to = max(to, ends[2 * w + 1]);
    i64 column = (i64)l.head * D;
    Source context = {kc + column, vc + column}, own = {kb + column, vb + column};
    Keys<KEYS> ks = {context, own, from, to, own_range(l.group.query(first), size, 0).lo,
                     own_range(l.group.query(last), size, h.window).hi, h.kv * D};
    return ks;
}

// Stat is what the backward pass keeps of a row: p = exp2(score·log2 e - lse) and ds = p·(dp - delta).
struct __align__(8) Stat {
    float lse, delta;
};

// row_range finds the rows of a list, [lo, hi), that may see context keys [at, to); a block of threads works on it, with two
// numbers of shared memory. Blocks are sorted by anchor, but their starts may be in any order.
__device__ inline Range row_range(int *ends, const int2 *blocks, int count, int at, int to, int rows_a_block, Heads h, int size) {
    int low = 0x7fffffff, high = 0;
    for (int n = threadIdx.x; n < count; n += blockDim.x) {
        Sight s = sight(blocks[n], 0, size, h);
        if (s.lo < to && s.anchor > at && s.lo < s.anchor) low = min(low, n), high = n + 1;
    }
    if (threadIdx.x == 0) ends[0] = 0x7fffffff, ends[1] = 0;
    __syncthreads();
    atomicMin(ends, low), atomicMax(ends + 1, high);
    __syncthreads();
    Range r = {ends[0] * rows_a_block, ends[1] * rows_a_block};
    if (ends[0] >= ends[1]) r.lo = r.hi = 0;
    return r;
}

// weigh turns the scores of keys g, g + 8 of `key` and 8·N rows into weights p.
template <int N>
__device__ inline void weigh(float (&s)[N][4], const Stat *stats, const Range *ranges, bool all, int key, float to_log2) {
    int g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
    for (int n = 0; n < N; n++) {
        float4 two = *(const float4 *)(stats + 8 * n + 2 * t); // of rows 2t and 2t + 1
#pragma unroll
        for (int c = 0; c < 4; c++) s[n][c] = exp2_fast(s[n][c] * to_log2 - (c % 2 ? two.z : two.x));
    }
    if (all) return;
#pragma unroll
    for (int n = 0; n < N; n++) {
        int4 two = *(const int4 *)(ranges + 8 * n + 2 * t);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            int j = key + g + c / 2 * 8;
            if (j < (c % 2 ? two.z : two.x) || j >= (c % 2 ? two.w : two.y)) s[n][c] = 0;
        }
    }
}

// steer turns dp into ds where p are the weights.
template <int N> __device__ inline void steer(float (&dp)[N][4], const float (&p)[N][4], const Stat *stats) {
    int t = lane_id() & 3;
#pragma unroll
    for (int n = 0; n < N; n++) {
        float4 two = *(const float4 *)(stats + 8 * n + 2 * t);
#pragma unroll
        for (int c = 0; c < 4; c++) dp[n][c] = p[n][c] * (dp[n][c] - (c % 2 ? two.w : two.y));
    }
}
