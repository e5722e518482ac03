// Attention in bfloat16 by warpgroups: what forward and backward share. Rows, ranges and lists are those of
// attention_mma.cuh. A block of threads stays on its multiprocessor and takes one tile of rows after another; one of its
// warpgroups only copies, ahead of the others, also into the next tile.
#pragma once
#include "attention_mma.cuh"
#include "wgmma.cuh"

#ifdef WGMMA
// item returns the number of the block's it-th piece of work: back and forth over the grid, since the pieces are sorted.
__device__ inline int item(int it) {
    return it * gridDim.x + (it % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

// copy_panels starts the copy of rows 0..ROWS of a tile of D columns by a warpgroup; row r lies at from(r), or is zero where
// that is null.
template <int D, int ROWS, class From> __device__ inline void copy_panels(u32 tile, const u16 *any, From from) {
    const int chunks = D / 8, pass = 128 / chunks;
    int c = threadIdx.x % 128 % chunks, r = threadIdx.x % 128 / chunks;
    u32 panel = tile + c / 8 * ROWS * 128;
#pragma unroll 2
    for (int i = 0; i < ROWS; i += pass) {
        const u16 *src = from(r + i);
        copy_async<16>(Mat<64>::at(panel, r + i, c % 8), src ? src + c * 8 : any, src != 0);
    }
}

// copy_panels does the same where all rows are real, row 0 at src and the others `step` elements apart.
template <int D, int ROWS> __device__ inline void copy_panels(u32 tile, const u16 *src, int step) {
    const int chunks = D / 8, pass = 128 / chunks;
    int c = threadIdx.x % 128 % chunks, r = threadIdx.x % 128 / chunks;
    u32 to = Mat<64>::at(tile + c / 8 * ROWS * 128, r, c % 8); // rows `pass` apart have their chunks in the same places
    const u16 *from = src + (i64)r * step + c * 8;
    i64 skip = (i64)pass * step;
#pragma unroll
    for (int i = 0; i < ROWS / pass; i++) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * pass * 128), "l"(from));
        from += skip;
    }
}

// store_row_pairs writes rows g and g + 8 of a warp's 16-row product as bfloat16; rows that are null are left out. Four
// lanes share a row: they exchange their pairs, so that each writes whole chunks.
template <int D> __device__ inline void store_row_pairs(u16 *row0, u16 *row1, const float (&c)[D / 8][4], float by0, float by1) {
    int t = lane_id() & 3;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u16 *row = half ? row1 : row0;
        float by = half ? by1 : by0;
#pragma unroll
        for (int n = 0; n < D / 8; n += 4) {
            u32 x[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = pack(c[n + i][2 * half] * by, c[n + i][2 * half + 1] * by);
            // A transpose of the four lanes' four pairs.
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                u32 got = __shfl_xor_sync(FULL_WARP, t & 1 ? x[i] : x[i + 1], 1);
                if (t & 1) x[i] = got;
                else x[i + 1] = got;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                u32 got = __shfl_xor_sync(FULL_WARP, t & 2 ? x[i] : x[i + 2], 2);
                if (t & 2) x[i] = got;
                else x[i + 2] = got;
            }
            if (row) *(uint4 *)(row + (n + t) * 8) = make_uint4(x[0], x[1], x[2], x[3]);
        }
    }
}

// Stream is the keys that a tile of rows sees, in one sequence: the context's [from, to) and then the slots' [own_from, own_to).
struct Stream {
    Source context, own;
    int from, to, own_from, own_to, step;

    __device__ int count() const { return to - from + own_to - own_from; }
    __device__ const u16 *row(const u16 *of_context, const u16 *of_own, int i) const {
        int slot = i - (to - from);
        if (slot < 0) return of_context + (i64)(from + i) * step;
        return slot < own_to - own_from ? of_own + (i64)(own_from + slot) * step : 0;
    }

    // copy starts the copy of tile i of KEYS rows of two tensors' sequence.
    template <int D, int KEYS> __device__ void copy(u32 tile, const u16 *of_context, const u16 *of_own, int i) const {
        if ((i + 1) * KEYS <= to - from) copy_panels<D, KEYS>(tile, of_context + (i64)(from + i * KEYS) * step, step);
        else copy_panels<D, KEYS>(tile, of_own, [&](int r) { return row(of_context, of_own, i * KEYS + r); });
    }
};

// Sees is what a row sees of a stream: two ranges of the sequence.
struct Sees {
    Range context, own;

    __device__ static Sees of(Range context, Range own, const Stream &s) {
        int shift = s.to - s.from - s.own_from;
        Sees v = {{context.lo - s.from, context.hi - s.from}, {own.lo + shift, own.hi + shift}};
        return v;
    }
    __device__ bool key(int j) const { return (j >= context.lo && j < context.hi) || (j >= own.lo && j < own.hi); }
};

// union_of is the context that blocks [from, to) of slots see together; a warp works on it.
__device__ inline Range union_of(const int2 *blocks, int from, int to, int size, Heads h) {
    Range u = {0x7fffffff, 0};
    for (int n = from + lane_id(); n < to; n += 32) {
        Sight s = sight(blocks[n], 0, size, h);
        if (s.lo < s.anchor) u.lo = min(u.lo, s.lo), u.hi = max(u.hi, s.anchor);
    }
    u.lo = warp_min(u.lo), u.hi = warp_max(u.hi);
    if (u.lo > u.hi) u.lo = u.hi = 0;
    return u;
}

// block_stream is the stream of rows [first, first + rows) of a list over all blocks.
template <int D>
__device__ inline Stream block_stream(const int2 *blocks, const List &l, int first, int rows, const u16 *kc, const u16 *vc, const u16 *kb,
                                      const u16 *vb, int size, Heads h) {
    int from = l.group.query(first) / size, last = l.group.query(min(first + rows, l.n) - 1);
    Range u = union_of(blocks, from, last / size + 1, size, h);
    i64 column = (i64)l.head * D;
    Source context = {kc + column, vc + column}, own = {kb + column, vb + column};
    Stream s = {context, own, u.lo, u.hi, from * size, own_range(last, size, h.window).hi, h.kv * D};
    return s;
}

// BlockTile is a tile of rows of a list over all blocks.
struct BlockTile {
    List l;
    int first, size;
    Stream s;
    const int2 *blocks;
    Heads h;

    __device__ void sees(int slot, Range &context, Range &own) const {
        context = context_range(blocks, slot, size, h);
        own = own_range(slot, size, h.window);
    }
};

template <int D> struct BlockWork {
    const u16 *kc, *vc, *kb, *vb;
    const int2 *blocks;
    int slots, size, items;
    Heads h;

    // Tiles of later rows, which see most of a document's context, come first.
    __device__ BlockTile tile(int i) const {
        const int rows = 128;
        int group = h.q / h.kv, first = (items - 1 - i) / h.kv * rows;
        List l = {0, slots * group, i % h.kv, h.q, Group(group)};
        BlockTile t = {l, first, size, block_stream<D>(blocks, l, first, rows, kc, vc, kb, vb, size, h), blocks, h};
        return t;
    }
};

// View is what the rows g and g + 8 of a warp see of a tile's stream, and the context that every row of the warp sees.
struct View {
    Sees row[2];
    Range all;

    template <class Tile> __device__ View(const Tile &w, int first) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            Range context = {0, 0}, own = {0, 0};
            if (first + 8 * i < w.l.n) w.sees(w.l.group.query(first + 8 * i), context, own);
            row[i] = Sees::of(context, own, w.s);
        }
        all.lo = warp_max(max(row[0].context.lo, row[1].context.lo));
        all.hi = warp_min(min(row[0].context.hi, row[1].context.hi));
    }

    // hide sets c of the keys at, at + 1, … that a row does not see to `to`.
    template <int N> __device__ void hide(float (&c)[N][4], int at, float to) const {
        if (at >= all.lo && at + 8 * N <= all.hi) return;
        at += (lane_id() & 3) * 2;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (!row[i / 2].key(at + 8 * n + i % 2)) c[n][i] = to;
    }
};
#endif
