#pragma once
#include "attention_mma.cuh"

// The forward pass of a tile of 128 rows: four warps of 32 rows stream tiles of 64 keys, whose keys and values pass
// through a ring of STAGES tiles (online softmax: Milakov and Gimelshein, 2018; Dao et al., 2022).
template <int D> struct ForwardMMA {
    static const int rows = 128, keys = 64, warps = 4, threads = 32 * warps, stages = 4;
    static const int tile = keys * D * 2;
    // Shared memory: the queries, the ring, the ranges of the rows in the context and in the slots, and two numbers a warp.
    static const int ring_at = rows * D * 2, ranges_at = ring_at + stages * tile;
    static const int bytes = ranges_at + 2 * rows * sizeof(Range) + 2 * warps * sizeof(int);

    // A row's maximum moves only when it grows by more than this many powers of two: until then the weights, which are
    // relative to it, stay exact in range and the sums need no rescaling.
    static constexpr float slack = 8;

    // run reads `ranges`, two for each row of the tile, which the caller has put at ranges_at before a barrier.
    // sums receives log Σ exp(score) by (query, head) unless it is null.
    __device__ static void run(char *shared, u16 *out, float *sums, const u16 *q, const List &l, int first, const Keys<keys> &ks,
                               float scale) {
        typedef Mat<D> M;
        const Range *ranges = (const Range *)(shared + ranges_at);
        u32 queries = shared_address(shared), ring = queries + ring_at;
        int warp = warp_id() * 32, tiles = ks.tiles();
        // Half step 2·i uses the keys of tile i, half step 2·i + 1 its values.
        auto fetch = [&](int half) {
            if (half < 2 * tiles) ks.template load<D, threads>(ring + half % stages * tile, half >> 1, half & 1);
            copies_commit();
        };
        load_queries<D, rows, threads>(queries, q, 0, 0, first, l);
        for (int i = 0; i < stages - 1; i++) fetch(i);

        Spread context = Spread::of(ranges[warp + lane_id()], true), own = Spread::of(ranges[rows + warp + lane_id()], true);
        float o[2][D / 8][4], top[4], sum[4], to_log2 = scale * LOG2E;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < D / 8; n++) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) top[i] = -INF, sum[i] = 0;
        u32 lane_q = M::lane_a(queries) + warp * M::row_bytes;

        for (int i = 0; i < tiles; i++) {
            bool is_own;
            int at = ks.at(i, is_own);
            Spread spread = Spread::pick(is_own, own, context);
            bool skip = spread.misses(at, keys);
            u32 weights[2][keys / 16][4];
            copies_wait<stages - 2>();
            __syncthreads();
            fetch(2 * i + stages - 1);
            if (!skip) {
                float s[2][keys / 8][4];
                scores(s, lane_q, M::lane_b(ring + 2 * i % stages * tile));
                if (!spread.covers(at, keys)) mask(s, ranges + (is_own ? rows : 0) + warp, at);
                softmax(weights, s, o, top, sum, to_log2);
            }
            copies_wait<stages - 2>();
            __syncthreads();
            fetch(2 * i + stages);
            if (!skip) {
                u32 lane_v = M::lane_a(ring + (2 * i + 1) % stages * tile);
#pragma unroll
                for (int k = 0; k < keys / 16; k++)
#pragma unroll
                    for (int n = 0; n < D / 16; n++) {
                        u32 b[4];
                        M::b_rows(b, lane_v, 16 * k, n);
#pragma unroll
                        for (int m = 0; m < 2; m++) {
                            mma(o[m][2 * n], weights[m][k], b[0], b[1]);
                            mma(o[m][2 * n + 1], weights[m][k], b[2], b[3]);
                        }
                    }
            }
        }
        copies_wait<0>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sum[i] += __shfl_xor_sync(FULL_WARP, sum[i], 1);
            sum[i] += __shfl_xor_sync(FULL_WARP, sum[i], 2);
            int r = first + warp + lane_id() / 4 + 8 * i;
            if (sums && lane_id() % 4 == 0 && r < l.n) sums[l.at(r)] = top[i] * LN2 + logf(sum[i]);
        }
#pragma unroll
        for (int m = 0; m < 2; m++) M::store(queries, warp + 16 * m, o[m], 1 / sum[2 * m], 1 / sum[2 * m + 1]);
        store_queries<D, 32>(out, queries, warp, first, l);
    }

    // s = q·kᵀ of 32 rows and the tile's keys.
    __device__ static void scores(float (&s)[2][keys / 8][4], u32 lane_q, u32 lane_k) {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < keys / 8; n++) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            u32 a[2][4];
            Mat<D>::a(a[0], lane_q, 0, k);
            Mat<D>::a(a[1], lane_q, 16, k);
#pragma unroll
            for (int n = 0; n < keys / 16; n++) {
                u32 b[4];
                Mat<D>::b(b, lane_k, 16 * n, k);
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    mma(s[m][2 * n], a[m], b[0], b[1]);
                    mma(s[m][2 * n + 1], a[m], b[2], b[3]);
                }
            }
        }
    }

    // mask hides the keys at, at + 1, … that a row does not see.
    __device__ static void mask(float (&s)[2][keys / 8][4], const Range *ranges, int at) {
        int g = lane_id() >> 2, t = lane_id() & 3;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            Range r = ranges[g + 8 * i];
            int lo = r.lo - at - 2 * t, hi = r.hi - at - 2 * t;
#pragma unroll
            for (int n = 0; n < keys / 8; n++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    float &x = s[i / 2][n][i % 2 * 2 + c];
                    int key = 8 * n + c;
                    if (key < lo || key >= hi) x = -INF;
                }
        }
    }

    // softmax turns scores into weights relative to top, which it moves where it must.
    __device__ static void softmax(u32 (&weights)[2][keys / 16][4], float (&s)[2][keys / 8][4], float (&o)[2][D / 8][4],
                                   float (&top)[4], float (&sum)[4], float to_log2) {
        float high[4];
        bool grows = false;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float m = -INF;
#pragma unroll
            for (int n = 0; n < keys / 8; n++) m = fmaxf(m, fmaxf(s[i / 2][n][i % 2 * 2], s[i / 2][n][i % 2 * 2 + 1]));
            m = fmaxf(m, __shfl_xor_sync(FULL_WARP, m, 1));
            high[i] = fmaxf(m, __shfl_xor_sync(FULL_WARP, m, 2)) * to_log2;
            grows |= high[i] > top[i] + slack;
        }
        if (__any_sync(FULL_WARP, grows)) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float next = fmaxf(top[i], high[i]), keep = next == -INF ? 1 : exp2_fast(top[i] - next);
                top[i] = next, sum[i] *= keep;
#pragma unroll
                for (int n = 0; n < D / 8; n++) o[i / 2][n][i % 2 * 2] *= keep, o[i / 2][n][i % 2 * 2 + 1] *= keep;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float from = top[i] == -INF ? 0 : top[i];
#pragma unroll
            for (int n = 0; n < keys / 8; n++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    float &x = s[i / 2][n][i % 2 * 2 + c];
                    x = exp2_fast(x * to_log2 - from);
                    sum[i] += x;
                }
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int k = 0; k < keys / 16; k++) to_a(weights[m][k], s[m][2 * k], s[m][2 * k + 1]);
    }
};
