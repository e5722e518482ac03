#pragma once
#include "attention_wgmma.cuh"

#ifdef WGMMA
// The forward pass: two warpgroups of 64 rows each over tiles of 128 keys, while a third copies. The softmax of a tile
// runs beside the products of the tile before with its values (Shah et al., 2024).
template <int D> struct ForwardWGMMA {
    static const int rows = 128, keys = 128, consumers = 2, threads = 128 * (1 + consumers), stages = 5;
    static const int queries = rows * D * 2, tile = keys * D * 2;
    static const int ring_at = queries, bars_at = ring_at + stages * tile;
    static const int bytes = bars_at + Ring<stages>::bytes + Ring<1>::bytes;
    static constexpr float slack = 8; // as in attention_mma_forward.cuh

    // work.tile(i) is tile i of rows: its list l, its first row in it, its stream s, and sees(query, context, own), which
    // gives the two ranges that a query of the list sees.
    template <class Work>
    __device__ static void run(char *shared, u16 *out, float *sums, const u16 *q, const Work &work, int items, float scale) {
        u32 base = shared_address(shared), bars = base + bars_at, query_bars = bars + Ring<stages>::bytes;
        if (threadIdx.x == 0) Ring<stages>::init(bars, 128, 128 * consumers), Ring<1>::init(query_bars, 128, 128 * consumers);
        __syncthreads();
        Ring<stages> ring(bars);
        Ring<1> query(query_bars);
        if (threadIdx.x < 128) {
            give_registers<40>();
            produce(base, q, work, items, ring, query);
        } else {
            take_registers<232>();
            consume(base, out, sums, work, items, scale, ring, query);
        }
    }

    template <class Work>
    __device__ static void produce(u32 base, const u16 *q, const Work &work, int items, Ring<stages> ring, Ring<1> query) {
        Publisher publisher;
        for (int it = 0; item(it) < items; it++) {
            auto w = work.tile(item(it));
            const List &l = w.l;
            const Stream &s = w.s;
            int first = w.first, n = (s.count() + keys - 1) / keys;
            auto push = [&](int i, const u16 *context, const u16 *own) {
                ring.wait_empty();
                s.copy<D, keys>(base + ring_at + ring.slot * tile, context, own, i);
                publisher.next(ring.full());
                ring.next();
            };
            push(0, s.context.k, s.own.k);
            query.wait_empty();
            copy_panels<D, rows>(base, q, [&](int r) { return first + r < l.n ? q + l.at(first + r) * D : (const u16 *)0; });
            publisher.next(query.full());
            query.next();
            for (int i = 1; i < n; i++) {
                push(i, s.context.k, s.own.k);
                push(i - 1, s.context.v, s.own.v);
            }
            push(n - 1, s.context.v, s.own.v);
        }
        publisher.end();
    }

    template <class Work>
    __device__ static void consume(u32 base, u16 *out, float *sums, const Work &work, int items, float scale, Ring<stages> ring, Ring<1> query) {
        int warp = warp_id() - 4, g = lane_id() >> 2, t = lane_id() & 3;
        u32 rows_at = base + warp / 4 * 64 * 128;
        float to_log2 = scale * LOG2E;
        for (int it = 0; item(it) < items; it++) {
            auto w = work.tile(item(it));
            const List &l = w.l;
            int row = w.first + warp * 16 + g, n = (w.s.count() + keys - 1) / keys;
            View view(w, row);
            float o[D / 8][4], s[keys / 8][4], top[2] = {-INF, -INF}, sum[2] = {0, 0}, keep[2];
            u32 weights[keys / 16][4];

            query.wait_full();
            ring.wait_full();
            wgmma_fence();
            scores(s, rows_at, base + ring_at + ring.slot * tile);
            wgmma_commit();
            wgmma_wait<0>();
            hold(s);
            barrier_arrive(ring.empty());
            ring.next();
            softmax(s, view, 0, top, sum, keep, to_log2);
            to_weights(weights, s);
#pragma unroll 1
            for (int i = 1; i < n; i++) {
                ring.wait_full();
                wgmma_fence();
                scores(s, rows_at, base + ring_at + ring.slot * tile);
                wgmma_commit();
                u32 keys_done = ring.empty();
                ring.next();
                ring.wait_full();
                values(o, weights, base + ring_at + ring.slot * tile, i > 1);
                wgmma_commit();
                wgmma_wait<1>();
                hold(s);
                barrier_arrive(keys_done);
                bool grows = softmax(s, view, i * keys, top, sum, keep, to_log2);
                wgmma_wait<0>();
                hold(o);
                barrier_arrive(ring.empty());
                ring.next();
                if (grows) {
#pragma unroll
                    for (int d = 0; d < D / 8; d++) o[d][0] *= keep[0], o[d][1] *= keep[0], o[d][2] *= keep[1], o[d][3] *= keep[1];
                }
                to_weights(weights, s);
            }
            barrier_arrive(query.empty());
            query.next();
            ring.wait_full();
            wgmma_fence();
            values(o, weights, base + ring_at + ring.slot * tile, n > 1);
            wgmma_commit();
#pragma unroll
            for (int i = 0; i < 2; i++) {
                sum[i] += __shfl_xor_sync(FULL_WARP, sum[i], 1);
                sum[i] += __shfl_xor_sync(FULL_WARP, sum[i], 2);
                if (sums && t == 0 && row + 8 * i < l.n) sums[l.at(row + 8 * i)] = top[i] * LN2 + logf(sum[i]);
            }
            wgmma_wait<0>();
            hold(o);
            barrier_arrive(ring.empty());
            ring.next();
            store_row_pairs<D>(row < l.n ? out + l.at(row) * D : 0, row + 8 < l.n ? out + l.at(row + 8) * D : 0, o, 1 / sum[0], 1 / sum[1]);
        }
    }

    __device__ static void scores(float (&s)[keys / 8][4], u32 q, u32 k) {
#pragma unroll
        for (int i = 0; i < D / 16; i++)
            wgmma<0, 0>(s, panel_rows(q + i / 4 * rows * 128 + i % 4 * 32), panel_rows(k + i / 4 * keys * 128 + i % 4 * 32), i > 0);
    }

    __device__ static void values(float (&o)[D / 8][4], const u32 (&weights)[keys / 16][4], u32 v, bool add) {
#pragma unroll
        for (int i = 0; i < keys / 16; i++) wgmma<1>(o, weights[i], panel_columns(v + i * 16 * 128, keys * 128), add || i > 0);
    }

    __device__ static void to_weights(u32 (&weights)[keys / 16][4], const float (&s)[keys / 8][4]) {
#pragma unroll
        for (int i = 0; i < keys / 16; i++) to_a(weights[i], s[2 * i], s[2 * i + 1]);
    }

    // softmax turns the scores of keys at, at + 1, … into weights relative to top. It returns whether top moves; what came
    // before is then to be multiplied by keep.
    __device__ static bool softmax(float (&s)[keys / 8][4], const View &view, int at, float (&top)[2], float (&sum)[2], float (&keep)[2],
                                   float to_log2) {
        view.hide(s, at, -INF);
        float high[2];
        bool grows = false;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float m = -INF;
#pragma unroll
            for (int n = 0; n < keys / 8; n++) m = fmaxf(m, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
            m = fmaxf(m, __shfl_xor_sync(FULL_WARP, m, 1));
            high[i] = fmaxf(m, __shfl_xor_sync(FULL_WARP, m, 2)) * to_log2;
            grows |= high[i] > top[i] + slack;
        }
        grows = __any_sync(FULL_WARP, grows);
        if (grows) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float next = fmaxf(top[i], high[i]);
                keep[i] = next == -INF ? 1 : exp2_fast(top[i] - next);
                top[i] = next, sum[i] *= keep[i];
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float from = top[i] == -INF ? 0 : top[i], part = 0;
#pragma unroll
            for (int n = 0; n < keys / 8; n++) {
                s[n][2 * i] = exp2_fast(s[n][2 * i] * to_log2 - from), s[n][2 * i + 1] = exp2_fast(s[n][2 * i + 1] * to_log2 - from);
                part += s[n][2 * i] + s[n][2 * i + 1];
            }
            sum[i] += part;
        }
        return grows;
    }
};
#endif
