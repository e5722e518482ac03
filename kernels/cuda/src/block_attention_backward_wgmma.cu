#include "attention_wgmma.cuh"

// Gradients as in block_attention_backward_mma.cu, whose block_attention_mma_stats comes first. Of three warpgroups one copies.
#ifdef WGMMA
// dq of a tile of 128 rows: two warpgroups of 64 rows, tiles of 64 keys with their values.
template <int D> struct QueryGradientWGMMA {
    static const int rows = 128, keys = 64, consumers = 2, threads = 128 * (1 + consumers), stages = 4;
    static const int row_tile = rows * D * 2, tile = keys * D * 2, stage = 2 * tile;
    static const int ring_at = 2 * row_tile, bars_at = ring_at + stages * stage;
    static const int bytes = bars_at + Ring<stages>::bytes + Ring<1>::bytes;

    __device__ static void produce(u32 base, const u16 *q, const u16 *dout, const BlockTile &w, int n, Ring<stages> ring, Ring<1> query) {
        Publisher publisher;
        auto source = [&](const u16 *from) {
            return [=](int r) { return w.first + r < w.l.n ? from + w.l.at(w.first + r) * D : (const u16 *)0; };
        };
        copy_panels<D, rows>(base, q, source(q));
        copy_panels<D, rows>(base + row_tile, q, source(dout));
        publisher.next(query.full());
        for (int i = 0; i < n; i++) {
            u32 to = base + ring_at + ring.slot * stage;
            ring.wait_empty();
            w.s.copy<D, keys>(to, w.s.context.k, w.s.own.k, i);
            w.s.copy<D, keys>(to + tile, w.s.context.v, w.s.own.v, i);
            publisher.next(ring.full());
            ring.next();
        }
        publisher.end();
    }

    __device__ static void consume(u32 base, u16 *dq, const Stat *stats, const BlockTile &w, int n, float scale, Ring<stages> ring, Ring<1> query) {
        int warp = warp_id() - 4, row = w.first + warp * 16 + (lane_id() >> 2);
        u32 rows_at = base + warp / 4 * 64 * 128, before = 0;
        View view(w, row);
        float grad[D / 8][4], s[keys / 8][4], dp[keys / 8][4], to_log2 = scale * LOG2E;
        u32 ds[keys / 16][4];
        Stat stat[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            stat[i].lse = stat[i].delta = 0;
            if (row + 8 * i < w.l.n) stat[i] = stats[row + 8 * i];
        }
        query.wait_full();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            u32 k = base + ring_at + ring.slot * stage;
            ring.wait_full();
            wgmma_fence();
            products(s, rows_at, k);
            wgmma_commit();
            products(dp, rows_at + row_tile, k + tile);
            wgmma_commit();
            wgmma_wait<1>();
            hold(s);
            if (before) barrier_arrive(before); // the sums of the tile before are done, too
            before = ring.empty();
#pragma unroll
            for (int j = 0; j < keys / 8; j++)
#pragma unroll
                for (int c = 0; c < 4; c++) s[j][c] = exp2_fast(s[j][c] * to_log2 - stat[c / 2].lse);
            view.hide(s, i * keys, 0);
            wgmma_wait<0>();
            hold(dp);
#pragma unroll
            for (int j = 0; j < keys / 8; j++)
#pragma unroll
                for (int c = 0; c < 4; c++) s[j][c] *= dp[j][c] - stat[c / 2].delta;
#pragma unroll
            for (int j = 0; j < keys / 16; j++) to_a(ds[j], s[2 * j], s[2 * j + 1]);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < keys / 16; j++) wgmma<1>(grad, ds[j], panel_columns(k + j * 16 * 128, keys * 128), i > 0 || j > 0);
            wgmma_commit();
            ring.next();
        }
        wgmma_wait<0>();
        hold(grad);
        store_row_pairs<D>(row < w.l.n ? dq + w.l.at(row) * D : 0, row + 8 < w.l.n ? dq + w.l.at(row + 8) * D : 0, grad, scale, scale);
    }

    // s = a·bᵀ of 64 rows and the tile's keys.
    __device__ static void products(float (&s)[keys / 8][4], u32 a, u32 b) {
#pragma unroll
        for (int i = 0; i < D / 16; i++)
            wgmma<0, 0>(s, panel_rows(a + i / 4 * rows * 128 + i % 4 * 32), panel_rows(b + i / 4 * keys * 128 + i % 4 * 32), i > 0);
    }
};

template <int D>
__device__ void block_dq(u16 *dq, const u16 *dout, const Stat *stats, const u16 *q, const BlockWork<D> &work, Heads h) {
    typedef QueryGradientWGMMA<D> G;
    extern __shared__ __align__(1024) char shared[];
    u32 base = shared_address(shared), bars = base + G::bars_at, query_bars = bars + Ring<G::stages>::bytes;
    if (threadIdx.x == 0) Ring<G::stages>::init(bars, 128, 128 * G::consumers), Ring<1>::init(query_bars, 128, 1);
    __syncthreads();
    Ring<G::stages> ring(bars);
    Ring<1> query(query_bars);
    BlockTile w = work.tile(blockIdx.x);
    int n = (w.s.count() + G::keys - 1) / G::keys;
    if (threadIdx.x < 128) {
        give_registers<40>();
        G::produce(base, q, dout, w, n, ring, query);
    } else {
        take_registers<232>();
        G::consume(base, dq, stats + (i64)w.l.head * w.l.n, w, n, h.scale, ring, query);
    }
}

// dk and dv of a tile of 128 keys: two warpgroups of 64 keys, tiles of 64 rows.
template <int D> struct KeyGradientWGMMA {
    static const int keys = 128, rows = 64, consumers = 2, threads = 128 * (1 + consumers), stages = 4;
    static const int key_tile = keys * D * 2, row_tile = rows * D * 2;
    // A stage is queries, gradients, stats and ranges of its rows.
    static const int stats_at = 2 * row_tile, ranges_at = stats_at + rows * sizeof(Stat), stage = ranges_at + rows * sizeof(Range);
    static const int ring_at = 2 * key_tile, bars_at = ring_at + stages * stage;
    static const int ends_at = bars_at + Ring<stages>::bytes + Ring<1>::bytes, bytes = ends_at + 2 * sizeof(int);

    // Keys says which keys: rows at.. of k and v, which end before `limit`.
    struct Keys {
        const u16 *k, *v;
        int at, limit, step;
    };

    // `seen` is null for keys that are slots.
    __device__ static void produce(char *shared, const u16 *q, const u16 *dout, const Stat *stats, const Range *seen, const List &l, Range list,
                                   const Keys &ks, int size, int window, Ring<stages> ring, Ring<1> resident) {
        u32 base = shared_address(shared);
        Publisher publisher;
        auto source = [&](const u16 *from) {
            return [=](int r) { return ks.at + r < ks.limit ? from + (i64)(ks.at + r) * ks.step : (const u16 *)0; };
        };
        copy_panels<D, keys>(base, ks.k, source(ks.k));
        copy_panels<D, keys>(base + key_tile, ks.k, source(ks.v));
        publisher.next(resident.full());
        for (int first = list.lo; first < list.hi; first += rows) {
            int stage_at = ring_at + ring.slot * stage, r = first + threadIdx.x % rows;
            u32 to = base + stage_at;
            bool in = r < list.hi;
            ring.wait_empty();
            if (threadIdx.x < rows) {
                copy_async<8>(to + stats_at + threadIdx.x * 8, stats + (in ? r : 0), in);
            } else if (seen) {
                copy_async<8>(to + ranges_at + threadIdx.x % rows * 8, seen + (in ? l.group.query(r) : 0), in);
            } else {
                Range none = {0, 0};
                ((Range *)(shared + stage_at + ranges_at))[threadIdx.x % rows] = in ? own_range(l.group.query(r), size, window) : none;
            }
            copy_row_pairs(to, q, dout, first, list.hi, l);
            publisher.next(ring.full());
            ring.next();
        }
        publisher.end();
    }

    // copy_row_pairs starts the copy of rows first.. of a list from two tensors.
    __device__ static void copy_row_pairs(u32 tile, const u16 *q, const u16 *dout, int first, int end, const List &l) {
        const int chunks = D / 8, pass = 128 / chunks;
        int c = threadIdx.x % chunks, r = threadIdx.x / chunks;
        u32 to = Mat<64>::at(tile + c / 8 * rows * 128, r, c % 8);
#pragma unroll 4
        for (int i = 0; i < rows / pass; i++) {
            int row = first + r + i * pass;
            bool real = row < end;
            i64 from = real ? l.at(row) * D + c * 8 : 0;
            copy_async<16>(to + i * pass * 128, q + from, real);
            copy_async<16>(to + i * pass * 128 + row_tile, dout + from, real);
        }
    }

    __device__ static void consume(char *shared, u16 *dk, u16 *dv, const Keys &ks, int n, float scale, Ring<stages> ring, Ring<1> resident) {
        u32 base = shared_address(shared);
        int warp = warp_id() - 4, key = ks.at + warp * 16;
        u32 keys_at = base + warp / 4 * 64 * 128;
        float sum_k[D / 8][4], sum_v[D / 8][4], s[rows / 8][4], dp[rows / 8][4], to_log2 = scale * LOG2E;
        u32 p[rows / 16][4], ds[rows / 16][4];
        resident.wait_full();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            int stage_at = ring_at + ring.slot * stage;
            u32 q = base + stage_at, dout = q + row_tile;
            const Stat *stats = (const Stat *)(shared + stage_at + stats_at);
            const Range *ranges = (const Range *)(shared + stage_at + ranges_at);
            ring.wait_full();
            wgmma_fence();
            products(s, keys_at, q);
            wgmma_commit();
            products(dp, keys_at + key_tile, dout);
            wgmma_commit();
            Spread low = Spread::of(ranges[lane_id()], true), high = Spread::of(ranges[32 + lane_id()], true);
            wgmma_wait<1>();
            hold(s);
            weigh(s, stats, ranges, low.covers(key, 16) && high.covers(key, 16), key, to_log2);
#pragma unroll
            for (int j = 0; j < rows / 16; j++) to_a(p[j], s[2 * j], s[2 * j + 1]);
            wgmma_wait<0>();
            hold(dp);
            steer(dp, s, stats);
#pragma unroll
            for (int j = 0; j < rows / 16; j++) to_a(ds[j], dp[2 * j], dp[2 * j + 1]);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < rows / 16; j++) wgmma<1>(sum_v, p[j], panel_columns(dout + j * 16 * 128, rows * 128), i > 0 || j > 0);
#pragma unroll
            for (int j = 0; j < rows / 16; j++) wgmma<1>(sum_k, ds[j], panel_columns(q + j * 16 * 128, rows * 128), i > 0 || j > 0);
            wgmma_commit();
            wgmma_wait<0>(); // the next scores would not have the registers beside p and ds
            barrier_arrive(ring.empty());
            ring.next();
        }
        hold(sum_k);
        hold(sum_v);
        key += lane_id() >> 2;
        bool first = key < ks.limit, second = key + 8 < ks.limit;
        i64 to = (i64)key * ks.step, to2 = to + (i64)8 * ks.step;
        store_row_pairs<D>(first ? dk + to : 0, second ? dk + to2 : 0, sum_k, scale, scale);
        store_row_pairs<D>(first ? dv + to : 0, second ? dv + to2 : 0, sum_v, 1, 1);
    }

    // s = a·bᵀ of 64 keys and the tile's rows.
    __device__ static void products(float (&s)[rows / 8][4], u32 a, u32 b) {
#pragma unroll
        for (int i = 0; i < D / 16; i++)
            wgmma<0, 0>(s, panel_rows(a + i / 4 * keys * 128 + i % 4 * 32), panel_rows(b + i / 4 * rows * 128 + i % 4 * 32), i > 0);
    }
};

// Grid (tiles · key heads): first the `context_tiles` tiles of the context, then the tiles of all slots.
template <int D>
__device__ void block_dkv(u16 *dkc, u16 *dvc, u16 *dkb, u16 *dvb, const u16 *dout, const Stat *stats, const Range *seen, const u16 *q,
                          const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks, int context, int context_tiles,
                          int slots, int size, Heads h) {
    typedef KeyGradientWGMMA<D> G;
    extern __shared__ __align__(1024) char shared[];
    u32 bars = shared_address(shared) + G::bars_at, resident_bars = bars + Ring<G::stages>::bytes;
    if (threadIdx.x == 0) Ring<G::stages>::init(bars, 128, 128 * G::consumers), Ring<1>::init(resident_bars, 128, 1);
    int tile = blockIdx.x / h.kv, head = blockIdx.x % h.kv, group = h.q / h.kv;
    bool of_context = tile < context_tiles;
    int at = (of_context ? tile : tile - context_tiles) * G::keys, to = min(at + G::keys, of_context ? context : slots);
    List l = {0, slots * group, head, h.q, Group(group)};
    Range list = {at / size * size * group, ((to - 1) / size + 1) * size * group}; // the rows that may see the keys
    if (of_context) list = row_range((int *)(shared + G::ends_at), blocks, slots / size, at, to, size * group, h, size);
    __syncthreads();
    Ring<G::stages> ring(bars);
    Ring<1> resident(resident_bars);
    i64 column = (i64)head * D;
    u16 *dk = (of_context ? dkc : dkb) + column, *dv = (of_context ? dvc : dvb) + column;
    if (list.lo == list.hi) { // no row sees the keys
        const int chunks = D / 8;
        for (int i = threadIdx.x; i < (to - at) * chunks; i += G::threads) {
            i64 place = (i64)(at + i / chunks) * h.kv * D + i % chunks * 8;
            *(uint4 *)(dk + place) = *(uint4 *)(dv + place) = make_uint4(0, 0, 0, 0);
        }
        return;
    }
    typename G::Keys ks = {(of_context ? kc : kb) + column, (of_context ? vc : vb) + column, at, to, h.kv * D};
    if (threadIdx.x < 128) {
        give_registers<40>();
        G::produce(shared, q, dout, stats + (i64)head * l.n, of_context ? seen : 0, l, list, ks, size, h.window, ring, resident);
    } else {
        take_registers<232>();
        G::consume(shared, dk, dv, ks, (list.hi - list.lo + G::rows - 1) / G::rows,
                   h.scale, ring, resident);
    }
}

#define BACKWARD(D)                                                                                                           \
    KERNEL __launch_bounds__(QueryGradientWGMMA<D>::threads, 1) block_attention_wgmma_dq_##D(                                 \
        u16 *dq, const u16 *dout, const Stat *stats, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb,               \
        const u16 *vb, const int2 *blocks, int slots, int size, int qh, int kvh, int window, float scale) {                   \
        Heads h = {qh, kvh, D, window, scale};                                                                                \
        BlockWork<D> work = {kc, vc, kb, vb, blocks, slots, size, (int)gridDim.x, h};                                         \
        block_dq<D>(dq, dout, stats, q, work, h);                                                                             \
    }                                                                                                                         \
    KERNEL __launch_bounds__(KeyGradientWGMMA<D>::threads, 1) block_attention_wgmma_dkv_##D(                                  \
        u16 *dkc, u16 *dvc, u16 *dkb, u16 *dvb, const u16 *dout, const Stat *stats, const Range *seen, const u16 *q,          \
        const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks, int context, int context_tiles,       \
        int slots, int size, int qh, int kvh, int window, float scale) {                                                      \
        Heads h = {qh, kvh, D, window, scale};                                                                                \
        block_dkv<D>(dkc, dvc, dkb, dvb, dout, stats, seen, q, kc, vc, kb, vb, blocks, context, context_tiles, slots, size,   \
                     h);                                                                                                      \
    }

BACKWARD(64)
BACKWARD(128)
#endif
