#include "attention_mma.cuh"

// stats[head][r] for every row r of every key head, with delta = do·o, and seen[slot] = what a slot sees of the context.
// A warp takes a (slot, query head) pair.
KERNEL block_attention_mma_stats(Stat *stats, Range *seen, const u16 *dout, const u16 *o, const float *lse, const int2 *blocks,
                                  int slots, int size, int qh, int kvh, int dim, int window) {
    i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (i >= (i64)slots * qh) return;
    int slot = i / qh, head = i % qh, group = qh / kvh;
    float sum = 0;
    for (int d = 2 * lane_id(); d < dim; d += 64) {
        u32 a = *(const u32 *)(dout + i * dim + d), b = *(const u32 *)(o + i * dim + d);
        sum += lower(a) * lower(b) + upper(a) * upper(b);
    }
    sum = warp_sum(sum);
    if (lane_id() != 0) return;
    Stat s = {lse[i] * LOG2E, sum};
    stats[(i64)(head / group) * slots * group + (i64)slot * group + head % group] = s;
    Heads h = {qh, kvh, dim, window, 0};
    if (head == 0) seen[slot] = context_range(blocks, slot, size, h);
}

// dq = scale·Σ_j ds_j·k_j of a tile of 128 rows: four warps of 32 rows stream tiles of 32 keys with their values, two
// tiles in flight. Grid as block_attention_mma.
template <int D> struct QueryGradient {
    static const int rows = 128, keys = 32, warps = 4, threads = 32 * warps, stages = 2;
    static const int tile = keys * D * 2;
    static const int dout_at = rows * D * 2, ring_at = 2 * dout_at, ranges_at = ring_at + stages * 2 * tile;
    static const int bytes = ranges_at + 2 * rows * sizeof(Range) + 2 * warps * sizeof(int);

    __device__ static void run(char *shared, u16 *dq, const u16 *dout, const Stat *stats, const u16 *q, const List &l, int first,
                               const Keys<keys> &ks, float scale) {
        typedef Mat<D> M;
        const Range *ranges = (const Range *)(shared + ranges_at);
        u32 queries = shared_address(shared), ring = queries + ring_at;
        int warp = warp_id() * 32, tiles = ks.tiles(), g = lane_id() >> 2, t = lane_id() & 3;
        auto fetch = [&](int i) {
            u32 to = ring + i % stages * 2 * tile;
            if (i < tiles) {
                ks.template load<D, threads>(to, i, false);
                ks.template load<D, threads>(to + tile, i, true);
            }
            copies_commit();
        };
        load_queries<D, rows, threads>(queries, q, queries + dout_at, dout, first, l);
        for (int i = 0; i < stages - 1; i++) fetch(i);

        Spread context = Spread::of(ranges[warp + lane_id()], true), own = Spread::of(ranges[rows + warp + lane_id()], true);
        float grad[2][D / 8][4], to_log2 = scale * LOG2E;
        Stat stat[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = first + warp + g + 8 * i;
            Stat none = {0, 0};
            stat[i] = r < l.n ? stats[r] : none;
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < D / 8; n++) grad[m][n][0] = grad[m][n][1] = grad[m][n][2] = grad[m][n][3] = 0;
        u32 lane_q = M::lane_a(queries) + warp * M::row_bytes, lane_g = lane_q + dout_at;

        for (int i = 0; i < tiles; i++) {
            bool is_own;
            int at = ks.at(i, is_own);
            Spread spread = Spread::pick(is_own, own, context);
            copies_wait<stages - 2>();
            __syncthreads();
            fetch(i + stages - 1);
            if (spread.misses(at, keys)) continue;
            u32 k = ring + i % stages * 2 * tile;
            float s[2][keys / 8][4], dp[2][keys / 8][4];
            products(s, lane_q, M::lane_b(k));
            products(dp, lane_g, M::lane_b(k + tile));
            bool all = spread.covers(at, keys);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int lo = 0, hi = keys;
                if (!all) {
                    Range seen = ranges[(is_own ? rows : 0) + warp + g + 8 * j];
                    lo = seen.lo - at - 2 * t, hi = seen.hi - at - 2 * t;
                }
#pragma unroll
                for (int n = 0; n < keys / 8; n++)
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        float &x = s[j / 2][n][j % 2 * 2 + c], p = exp2_fast(x * to_log2 - stat[j].lse);
                        int key = 8 * n + c;
                        x = key >= lo && key < hi ? p * (dp[j / 2][n][j % 2 * 2 + c] - stat[j].delta) : 0;
                    }
            }
            u32 lane_k = M::lane_a(k);
#pragma unroll
            for (int kk = 0; kk < keys / 16; kk++) {
                u32 a[2][4];
#pragma unroll
                for (int m = 0; m < 2; m++) to_a(a[m], s[m][2 * kk], s[m][2 * kk + 1]);
#pragma unroll
                for (int n = 0; n < D / 16; n++) {
                    u32 b[4];
                    M::b_rows(b, lane_k, 16 * kk, n);
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        mma(grad[m][2 * n], a[m], b[0], b[1]);
                        mma(grad[m][2 * n + 1], a[m], b[2], b[3]);
                    }
                }
            }
        }
        copies_wait<0>();
        __syncwarp();
#pragma unroll
        for (int m = 0; m < 2; m++) M::store(queries, warp + 16 * m, grad[m], scale, scale);
        store_queries<D, 32>(dq, queries, warp, first, l);
    }

    // s = a·bᵀ of 32 rows and the tile's keys.
    __device__ static void products(float (&s)[2][keys / 8][4], u32 lane_rows, u32 lane_keys) {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < keys / 8; n++) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            u32 a[2][4];
            Mat<D>::a(a[0], lane_rows, 0, k);
            Mat<D>::a(a[1], lane_rows, 16, k);
#pragma unroll
            for (int n = 0; n < keys / 16; n++) {
                u32 b[4];
                Mat<D>::b(b, lane_keys, 16 * n, k);
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    mma(s[m][2 * n], a[m], b[0], b[1]);
                    mma(s[m][2 * n + 1], a[m], b[2], b[3]);
                }
            }
        }
    }
};

template <int D>
__device__ void block_dq(u16 *dq, const u16 *dout, const Stat *stats, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb,
                         const u16 *vb, const int2 *blocks, int slots, int size, Heads h) {
    typedef QueryGradient<D> G;
    extern __shared__ __align__(1024) char shared[];
    int tile = gridDim.x / h.kv - 1 - blockIdx.x / h.kv, head = blockIdx.x % h.kv, group = h.q / h.kv;
    List l = {0, slots * group, head, h.q, Group(group)};
    int first = tile * G::rows;
    Keys<G::keys> ks = block_keys<D, G::keys, G::rows>((Range *)(shared + G::ranges_at), blocks, l, first, kc, vc, kb, vb, size, h);
    G::run(shared, dq, dout, stats + (i64)head * l.n, q, l, first, ks, h.scale);
}

// dk = scale·Σ_r ds_r·q_r and dv = Σ_r p_r·do_r of a tile of 64 keys over all rows that see it, in their order: four warps of
// 16 keys stream tiles of 64 rows, two in flight. Products stand transposed, keys down and rows across, so that they are
// at once the left operands of the sums.
template <int D> struct KeyGradient {
    static const int warps = 4, keys = 16 * warps, rows = 64, threads = 32 * warps, stages = 2;
    static const int key_tile = keys * D * 2, row_tile = rows * D * 2;
    // A stage is queries, gradients, stats and ranges of its rows.
    static const int stats_at = 2 * row_tile, ranges_at = stats_at + rows * sizeof(Stat), stage = ranges_at + rows * sizeof(Range);
    static const int ring_at = 2 * key_tile, ends_at = ring_at + stages * stage;
    static const int bytes = ends_at + 2 * sizeof(int);

    // run sums over rows [begin, end) of the list; `seen` is null for keys that are slots.
    __device__ static void run(char *shared, u16 *dk, u16 *dv, const u16 *k, const u16 *v, int at, int limit, int step, const u16 *dout,
                               const u16 *q, const Stat *stats, const Range *seen, const List &l, int begin, int end, int size, Heads h) {
        typedef Mat<D> M;
        u32 tile = shared_address(shared), ring = tile + ring_at;
        int warp = warp_id() * 16, tiles = end > begin ? (end - begin + rows - 1) / rows : 0;
        List part = l;
        part.n = end;
        auto fetch = [&](int i) {
            if (i < tiles) {
                int first = begin + i * rows;
                u32 to = ring + i % stages * stage;
                load_queries<D, rows, threads>(to, q, to + row_tile, dout, first, part);
                int r = first + threadIdx.x % rows;
                bool in = r < end;
                if (threadIdx.x < rows) {
                    copy_async<8>(to + stats_at + threadIdx.x * 8, stats + (in ? r : 0), in);
                } else if (seen) {
                    copy_async<8>(to + ranges_at + threadIdx.x % rows * 8, seen + (in ? l.group.query(r) : 0), in);
                } else {
                    Range none = {0, 0};
                    ((Range *)(shared + ring_at + i % stages * stage + ranges_at))[threadIdx.x % rows] =
                        in ? own_range(l.group.query(r), size, h.window) : none;
                }
            }
            copies_commit();
        };
        load_rows<D, keys, threads>(tile, k, at, limit, step);
        load_rows<D, keys, threads>(tile + key_tile, v, at, limit, step);
        for (int i = 0; i < stages - 1; i++) fetch(i);

        float sum_k[D / 8][4], sum_v[D / 8][4], to_log2 = h.scale * LOG2E;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) sum_k[n][c] = sum_v[n][c] = 0;
        u32 lane_k = M::lane_a(tile) + warp * M::row_bytes, lane_v = lane_k + key_tile;
        int key = at + warp;

        for (int i = 0; i < tiles; i++) {
            copies_wait<stages - 2>();
            __syncthreads();
            fetch(i + stages - 1);
            u32 queries = ring + i % stages * stage, douts = queries + row_tile;
            const Stat *stat = (const Stat *)(shared + ring_at + i % stages * stage + stats_at);
            const Range *ranges = (const Range *)(stat + rows);
            Spread low = Spread::of(ranges[lane_id()], true), high = Spread::of(ranges[32 + lane_id()], true);
            if (low.misses(key, 16) && high.misses(key, 16)) continue;
            bool all = low.covers(key, 16) && high.covers(key, 16);
            float s[rows / 8][4], dp[rows / 8][4];
            products(s, lane_k, M::lane_b(queries));
            products(dp, lane_v, M::lane_b(douts));
weigh(s, stat, ranges, all, key, to_log2);
            steer(dp, s, stat);
            accumulate(sum_v, s, M::lane_a(douts));
            accumulate(sum_k, dp, M::lane_a(queries));
        }
        copies_wait<0>();
        __syncthreads();
        M::store(tile, warp, sum_k, h.scale, h.scale);
        M::store(tile + key_tile, warp, sum_v, 1, 1);
        __syncwarp();
        for (int i = lane_id(); i < 16 * M::chunks; i += 32) {
            int r = warp + i / M::chunks, c = i % M::chunks;
            if (at + r >= limit) continue;
            i64 to = (i64)(at + r) * step + c * 8;
            *(uint4 *)(dk + to) = read_chunk(M::at(tile, r, c));
            *(uint4 *)(dv + to) = read_chunk(M::at(tile + key_tile, r, c));
        }
    }

    // s = a·bᵀ of the warp's keys and the tile's rows.
    __device__ static void products(float (&s)[rows / 8][4], u32 lane_keys, u32 lane_rows) {
#pragma unroll
        for (int n = 0; n < rows / 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            u32 a[4];
            Mat<D>::a(a, lane_keys, 0, k);
#pragma unroll
            for (int n = 0; n < rows / 16; n++) {
                u32 b[4];
                Mat<D>::b(b, lane_rows, 16 * n, k);
                mma(s[2 * n], a, b[0], b[1]);
                mma(s[2 * n + 1], a, b[2], b[3]);
            }
        }
    }

    // sum[key] += Σ_r p[key][r]·x[r].
    __device__ static void accumulate(float (&sum)[D / 8][4], const float (&p)[rows / 8][4], u32 lane_rows) {
#pragma unroll
        for (int k = 0; k < rows / 16; k++) {
            u32 a[4];
            to_a(a, p[2 * k], p[2 * k + 1]);
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                u32 b[4];
                Mat<D>::b_rows(b, lane_rows, 16 * k, n);
                mma(sum[2 * n], a, b[0], b[1]);
                mma(sum[2 * n + 1], a, b[2], b[3]);
            }
        }
    }
};

// Grid (tiles · key heads): first the `context_tiles` tiles of the context, then the tiles of all slots.
template <int D>
__device__ void block_dkv(u16 *dkc, u16 *dvc, u16 *dkb, u16 *dvb, const u16 *dout, const Stat *stats, const Range *seen, const u16 *q,
                          const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks, int context, int context_tiles,
                          int slots, int size, Heads h) {
    typedef KeyGradient<D> G;
    extern __shared__ __align__(1024) char shared[];
    int tile = blockIdx.x / h.kv, head = blockIdx.x % h.kv, group = h.q / h.kv;
    bool of_context = tile < context_tiles;
    int at = (of_context ? tile : tile - context_tiles) * G::keys, to = min(at + G::keys, of_context ? context : slots);
    List l = {0, slots * group, head, h.q, Group(group)};
    Range seeing = {at / size * size * group, ((to - 1) / size + 1) * size * group}; // the rows that may see the keys
    if (of_context) seeing = row_range((int *)(shared + G::ends_at), blocks, slots / size, at, to, size * group, h, size);
    i64 column = (i64)head * D;
    G::run(shared, (of_context ? dkc : dkb) + column, (of_context ? dvc : dvb) + column, (of_context ? kc : kb) + column,
           (of_context ? vc : vb) + column, at, to, h.kv * D, dout, q, stats + (i64)head * l.n, of_context ? seen : 0, l, seeing.lo, seeing.hi, size, h);
}

#define BACKWARD(D)                                                                                                           \
    KERNEL __launch_bounds__(QueryGradient<D>::threads, 2) block_attention_mma_dq_##D(                                       \
        u16 *dq, const u16 *dout, const Stat *stats, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb,               \
        const u16 *vb, const int2 *blocks, int slots, int size, int qh, int kvh, int window, float scale) {                   \
        Heads h = {qh, kvh, D, window, scale};                                                                                \
        block_dq<D>(dq, dout, stats, q, kc, vc, kb, vb, blocks, slots, size, h);                                              \
    }                                                                                                                         \
    KERNEL __launch_bounds__(KeyGradient<D>::threads, 2) block_attention_mma_dkv_##D(                                        \
        u16 *dkc, u16 *dvc, u16 *dkb, u16 *dvb, const u16 *dout, const Stat *stats, const Range *seen, const u16 *q,          \
        const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks, int context, int context_tiles,       \
        int slots, int size, int qh, int kvh, int window, float scale) {                                                      \
        Heads h = {qh, kvh, D, window, scale};                                                                                \
        block_dkv<D>(dkc, dvc, dkb, dvb, dout, stats, seen, q, kc, vc, kb, vb, blocks, context, context_tiles, slots, size,   \
                     h);                                                                                                      \
    }

BACKWARD(64)
BACKWARD(128)
