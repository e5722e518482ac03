// The tiles of attention: operands of the half type, arithmetic in float32. A block of threads holds ROWS query rows of one key head and streams tiles of KEYS
// keys past them. A query row is a (query, head of the group) pair: row r of a list of queries is query r / group and
// head r % group, so heads that share keys share their tiles.
//
// Thread t is ty = t / 16 of ROWS / 4 and tx = t % 16. It owns rows 4·ty.. and, of a tile of scores, keys tx + 16·j;
// of an output row, elements tx + 16·j. Sixteen threads of half a warp share a row. Rows in shared memory have a stride of
// D + 4 floats, which keeps 16-byte accesses free of bank conflicts.
#pragma once
#include "half.cuh"

// Shared memory of all attention kernels, laid out by each.
extern __shared__ __align__(16) float tiles[];

// Heads is kernels.Heads; group = Q / KV query heads read one key head.
struct Heads {
    int q, kv, dim, window;
    float scale;
};

template <int D, int ROWS, int KEYS> struct Tile {
    static const int threads = ROWS * 4;
    static const int stride = D + 4;
    static const int columns = KEYS / 16; // scores of a row that a thread owns
    static const int elements = D / 16;   // elements of a row that a thread owns
    static const int score_stride = KEYS + 1;

    // load copies rows [0, n) of dim values, the first at src and `step` apart, into rows of a tile, and sets the rest of
    // the tile's `rows` rows to zero.
    __device__ static void load(float *tile, int rows, const Half *src, int n, int step, int dim) {
        for (int i = threadIdx.x; i < rows * D; i += threads) {
            int r = i / D, d = i % D;
            tile[r * stride + d] = r < n && d < dim ? float(src[(i64)r * step + d]) : 0.0f;
        }
    }

    // load_queries does the same for query rows first.. of a list of n, which begins at query `base`.
    __device__ static void load_queries(float *tile, const Half *src, int base, int first, int n, int head, int group, Heads h) {
        for (int i = threadIdx.x; i < ROWS * D; i += threads) {
            int r = first + i / D, d = i % D;
            bool in = r < n && d < h.dim;
            i64 at = ((i64)(base + r / group) * h.q + head * group + r % group) * h.dim + d;
            tile[i / D * stride + d] = in ? float(src[at]) : 0.0f;
        }
    }

    // dots: s[i][j] = a[4·ty+i] · b[tx+16·j].
    __device__ static void dots(float (&s)[4][columns], const float *a, const float *b) {
        const float *pa = a + (threadIdx.x / 16) * 4 * stride, *pb = b + (threadIdx.x % 16) * stride;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < columns; j++) s[i][j] = 0;
#pragma unroll 4
        for (int d = 0; d < D; d += 4) {
            float4 x[4], y[columns];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = *(const float4 *)(pa + i * stride + d);
#pragma unroll
            for (int j = 0; j < columns; j++) y[j] = *(const float4 *)(pb + j * 16 * stride + d);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < columns; j++)
                    s[i][j] += x[i].x * y[j].x + x[i].y * y[j].y + x[i].z * y[j].z + x[i].w * y[j].w;
        }
    }

    // accumulate: o[i][e] += Σ_k p[4·ty+i][k] · v[k][tx+16·e] over the KEYS rows of v.
    __device__ static void accumulate(float (&o)[4][elements], const float *p, const float *v) {
        const float *pp = p + (threadIdx.x / 16) * 4 * score_stride, *pv = v + threadIdx.x % 16;
#pragma unroll 4
        for (int k = 0; k < KEYS; k++) {
            float y[elements];
#pragma unroll
            for (int e = 0; e < elements; e++) y[e] = pv[k * stride + 16 * e];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float x = pp[i * score_stride + k];
#pragma unroll
                for (int e = 0; e < elements; e++) o[i][e] += x * y[e];
            }
        }
    }
};

// Sum and maximum over the sixteen threads of a row.
__device__ inline float row_sum(float v) {
    for (int o = 8; o > 0; o >>= 1) v += __shfl_xor_sync(FULL_WARP, v, o);
    return v;
}

__device__ inline float row_max(float v) {
    for (int o = 8; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL_WARP, v, o));
    return v;
}

// Forward is the running softmax of a block's query rows (Milakov and Gimelshein, 2018; Dao et al., 2022).
template <int D, int ROWS, int KEYS> struct Forward {
    typedef Tile<D, ROWS, KEYS> T;
    float *q, *k, *v, *p;
    float o[4][T::elements], top[4], sum[4];

    __device__ Forward() {
        q = tiles, k = q + ROWS * T::stride, v = k + KEYS * T::stride, p = v + KEYS * T::stride;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            top[i] = -INF, sum[i] = 0;
#pragma unroll
            for (int e = 0; e < T::elements; e++) o[i][e] = 0;
        }
    }

    // keys lets the rows see keys [lo[i], hi[i]) of rows [from, to) of ks and vs, which are row 0 of the key head's columns.
    __device__ void keys(const Half *ks, const Half *vs, int from, int to, const int (&lo)[4], const int (&hi)[4], Heads h) {
        int step = h.kv * h.dim, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
        for (int at = from; at < to; at += KEYS) {
            int n = to - at < KEYS ? to - at : KEYS;
            __syncthreads();
            T::load(k, KEYS, ks + (i64)at * step, n, step, h.dim);
            T::load(v, KEYS, vs + (i64)at * step, n, step, h.dim);
            __syncthreads();
            float s[4][T::columns];
            T::dots(s, q, k);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float m = -INF;
#pragma unroll
                for (int j = 0; j < T::columns; j++) {
                    int key = at + tx + 16 * j;
                    s[i][j] = key >= lo[i] && key < hi[i] ? s[i][j] * h.scale : -INF;
                    m = fmaxf(m, s[i][j]);
                }
                m = fmaxf(top[i], row_max(m));
                float keep = m == -INF ? 1.0f : expf(top[i] - m), part = 0;
#pragma unroll
                for (int j = 0; j < T::columns; j++) {
                    float e = m == -INF ? 0.0f : expf(s[i][j] - m);
                    p[(4 * ty + i) * T::score_stride + tx + 16 * j] = e;
                    part += e;
                }
                sum[i] = sum[i] * keep + row_sum(part);
                top[i] = m;
#pragma unroll
                for (int e = 0; e < T::elements; e++) o[i][e] *= keep;
            }
            __syncthreads();
            T::accumulate(o, p, v);
        }
    }

    // store writes rows first.. of a list of n that begins at query `base`; lse [queries, heads] may be null.
    __device__ void store(Half *out, float *lse, int base, int first, int n, int head, int group, Heads h) {
        int tx = threadIdx.x % 16;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = first + threadIdx.x / 16 * 4 + i;
            if (r >= n) continue;
            i64 at = (i64)(base + r / group) * h.q + head * group + r % group;
#pragma unroll
            for (int e = 0; e < T::elements; e++) {
                int d = tx + 16 * e;
                if (d < h.dim) out[at * h.dim + d] = Half(o[i][e] / sum[i]);
            }
            if (lse && tx == 0) lse[at] = top[i] + logf(sum[i]);
        }
    }
};

// Sight is what slots of a block see: context rows [lo, anchor) and the first `slots` slots of their block.
struct Sight {
    int lo, anchor, slots;
};

// sight states kernels.Block.Sees for slot s of a block {start, anchor}.
__device__ inline Sight sight(int2 block, int s, int size, Heads h) {
    Sight v = {block.x, block.y, size};
    if (h.window > 0) {
        int lo = block.y + s - (h.window - 1);
        v.lo = lo > block.x ? lo : block.x;
        v.lo = v.lo < block.y ? v.lo : block.y;
        v.slots = s + 1;
    }
    return v;
}
