#include "half.cuh"
#include "attention.cuh"

// delta[i] = do_i · o_i for rows of dim values, a warp per row.
KERNEL block_attention_delta(float *delta, const Half *dout, const Half *o, i64 rows, int dim) {
    i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (i >= rows) return;
    float sum = 0;
    for (int d = lane_id(); d < dim; d += 32) sum += float(dout[i * dim + d]) * float(o[i * dim + d]);
    sum = warp_sum(sum);
    if (lane_id() == 0) delta[i] = sum;
}

// Backward holds query rows with their gradients, and a tile of keys and values. p and ds are [ROWS, KEYS].
template <int D, int ROWS, int KEYS> struct Backward {
    typedef Tile<D, ROWS, KEYS> T;
    float *q, *g, *k, *v, *p, *ds;

    __device__ Backward() {
        q = tiles, g = q + ROWS * T::stride, k = g + ROWS * T::stride, v = k + KEYS * T::stride;
        p = v + KEYS * T::stride, ds = p + ROWS * T::score_stride;
    }

    // scores fills p and ds for keys at, at + 1, … that rows see in [lo[i], hi[i]). Keys are numbered as lo and hi.
    __device__ void scores(int at, const int (&lo)[4], const int (&hi)[4], const float (&lse)[4], const float (&delta)[4], Heads h) {
        float s[4][T::columns], e[4][T::columns];
        T::dots(s, q, k);
        T::dots(e, g, v);
        int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < T::columns; j++) {
                int key = at + tx + 16 * j, to = (4 * ty + i) * T::score_stride + tx + 16 * j;
                float w = key >= lo[i] && key < hi[i] ? expf(s[i][j] * h.scale - lse[i]) : 0.0f;
                p[to] = w;
                ds[to] = w * (e[i][j] - delta[i]) * h.scale;
            }
    }
};

// What a thread keeps of its four rows.
struct Rows {
    float lse[4], delta[4];

    // read takes rows first.. of a list of n that begins at query `base`.
    __device__ void read(const float *lses, const float *deltas, int base, int first, int n, int head, int group, Heads h) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = first + threadIdx.x / 16 * 4 + i;
            i64 at = (i64)(base + r / group) * h.q + head * group + r % group;
            lse[i] = r < n ? lses[at] : 0.0f;
            delta[i] = r < n ? deltas[at] : 0.0f;
        }
    }
};

// dq = Σ_j ds_j·k_j; grid as block_attention.
template <int D, int ROWS, int KEYS>
__device__ void block_dq(Half *dq, const Half *dout, const float *lse, const float *delta, const Half *q, const Half *kc,
                         const Half *vc, const Half *kb, const Half *vb, const int2 *blocks, int size, int cuts, Heads h) {
    typedef Tile<D, ROWS, KEYS> T;
    int n = blockIdx.x / cuts, first = blockIdx.x % cuts * ROWS;
    int head = blockIdx.y, group = h.q / h.kv, rows = size * group, base = n * size;
    int2 block = blocks[n];
    Backward<D, ROWS, KEYS> b;
    T::load_queries(b.q, q, base, first, rows, head, group, h);
    T::load_queries(b.g, dout, base, first, rows, head, group, h);
    Rows own;
    own.read(lse, delta, base, first, rows, head, group, h);
    int lo[4], hi[4], zero[4] = {0, 0, 0, 0}, slots[4];
    float sum[4][T::elements];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = first + threadIdx.x / 16 * 4 + i;
        Sight s = sight(block, r / group, size, h);
        lo[i] = s.lo, hi[i] = r < rows ? s.anchor : 0, slots[i] = r < rows ? s.slots : 0;
#pragma unroll
        for (int e = 0; e < T::elements; e++) sum[i][e] = 0;
    }
    int last = first + ROWS < rows ? first + ROWS - 1 : rows - 1, step = h.kv * h.dim;
    for (int part = 0; part < 2; part++) {
        i64 own_at = ((i64)base * h.kv + head) * h.dim;
        const Half *ks = part ? kb + own_at : kc + head * h.dim, *vs = part ? vb + own_at : vc + head * h.dim;
        int from = part ? 0 : sight(block, first / group, size, h).lo;
        int to = part ? sight(block, last / group, size, h).slots : block.y;
        for (int at = from; at < to; at += KEYS) {
            int keys = to - at < KEYS ? to - at : KEYS;
            __syncthreads();
            T::load(b.k, KEYS, ks + (i64)at * step, keys, step, h.dim);
            T::load(b.v, KEYS, vs + (i64)at * step, keys, step, h.dim);
            __syncthreads();
            if (part) b.scores(at, zero, slots, own.lse, own.delta, h);
            else b.scores(at, lo, hi, own.lse, own.delta, h);
            __syncthreads();
            T::accumulate(sum, b.ds, b.k);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = first + threadIdx.x / 16 * 4 + i;
        if (r >= rows) continue;
        i64 at = ((i64)(base + r / group) * h.q + head * group + r % group) * h.dim;
#pragma unroll
        for (int e = 0; e < T::elements; e++) {
            int d = threadIdx.x % 16 + 16 * e;
            if (d < h.dim) dq[at + d] = Half(sum[i][e]);
        }
    }
}

// dk = Σ ds·q and dv = Σ p·do of one tile of KEYS keys over all query rows that see it, in their order. The first
// `context_tiles` blocks of the grid take the context's tiles, the others the slots of one block of slots each, in `cuts`
// tiles. ROWS equals KEYS, so that the threads cover the keys as they cover rows.
template <int D, int ROWS, int KEYS>
__device__ void block_dkv(Half *dkc, Half *dvc, Half *dkb, Half *dvb, const Half *dout, const float *lse,
                          const float *delta, const Half *q, const Half *kc, const Half *vc, const Half *kb,
                          const Half *vb, const int2 *blocks, int count, int context, int context_tiles, int size, int cuts,
                          Heads h) {
    typedef Tile<D, ROWS, KEYS> T;
    int head = blockIdx.y, group = h.q / h.kv, step = h.kv * h.dim;
    bool of_context = (int)blockIdx.x < context_tiles;
    int n = of_context ? 0 : (blockIdx.x - context_tiles) / cuts;          // the first block that may see the keys
    int at = of_context ? blockIdx.x * KEYS : (blockIdx.x - context_tiles) % cuts * KEYS; // the first key
    int limit = of_context ? context : size, end = of_context ? count : n + 1;
    int keys = limit - at < KEYS ? limit - at : KEYS;
    if (of_context) { // blocks are sorted by anchor: skip those whose context ends before the tile
        int lo = 0, hi = count;
        while (lo < hi) {
            int mid = (lo + hi) / 2;
            if (blocks[mid].y > at) hi = mid;
            else lo = mid + 1;
        }
        n = lo;
    }
    i64 offset = (of_context ? (i64)at : (i64)n * size + at) * step + head * h.dim;
    Backward<D, ROWS, KEYS> b;
    T::load(b.k, KEYS, (of_context ? kc : kb) + offset, keys, step, h.dim);
    T::load(b.v, KEYS, (of_context ? vc : vb) + offset, keys, step, h.dim);
    float dk[4][T::elements], dv[4][T::elements];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int e = 0; e < T::elements; e++) dk[i][e] = dv[i][e] = 0;

    int base = n * size, rows = (end - n) * size * group;
    for (int first = 0; first < rows; first += ROWS) {
        int lo[4], hi[4], seen = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = first + threadIdx.x / 16 * 4 + i, slot = r / group;
            lo[i] = hi[i] = 0;
            if (r >= rows) continue;
            Sight s = sight(blocks[n + slot / size], slot % size, size, h);
            lo[i] = of_context ? s.lo : 0;
            hi[i] = of_context ? s.anchor : s.slots;
            seen |= lo[i] < at + keys && hi[i] > at && lo[i] < hi[i];
        }
        if (!__syncthreads_or(seen)) continue;
        T::load_queries(b.q, q, base, first, rows, head, group, h);
        T::load_queries(b.g, dout, base, first, rows, head, group, h);
        Rows own;
        own.read(lse, delta, base, first, rows, head, group, h);
        __syncthreads();
        b.scores(at, lo, hi, own.lse, own.delta, h);
        __syncthreads();
        // Thread rows are keys here: dv[key] += Σ_r p[r][key]·do[r].
        int key = threadIdx.x / 16 * 4, tx = threadIdx.x % 16;
#pragma unroll 2
        for (int r = 0; r < ROWS; r++) {
            float x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = b.p[r * T::score_stride + key + i], y[i] = b.ds[r * T::score_stride + key + i];
#pragma unroll
            for (int e = 0; e < T::elements; e++) {
                float g = b.g[r * T::stride + tx + 16 * e], w = b.q[r * T::stride + tx + 16 * e];
#pragma unroll
                for (int i = 0; i < 4; i++) dv[i][e] += x[i] * g, dk[i][e] += y[i] * w;
            }
        }
        __syncthreads();
    }
    Half *dks = (of_context ? dkc : dkb) + offset, *dvs = (of_context ? dvc : dvb) + offset;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int key = threadIdx.x / 16 * 4 + i;
        if (key >= keys) continue;
#pragma unroll
        for (int e = 0; e < T::elements; e++) {
            int d = threadIdx.x % 16 + 16 * e;
            if (d < h.dim) dks[(i64)key * step + d] = Half(dk[i][e]), dvs[(i64)key * step + d] = Half(dv[i][e]);
        }
    }
}

#define BACKWARD(D, ROWS, KEYS)                                                                                            \
    KERNEL __launch_bounds__(ROWS * 4) block_attention_dq_##D(                                                             \
        Half *dq, const Half *dout, const float *lse, const float *delta, const Half *q, const Half *kc,               \
        const Half *vc, const Half *kb, const Half *vb, const int2 *blocks, int size, int cuts, int qh, int kvh,        \
        int dim, int window, float scale) {                                                                                \
        Heads h = {qh, kvh, dim, window, scale};                                                                           \
        block_dq<D, ROWS, KEYS>(dq, dout, lse, delta, q, kc, vc, kb, vb, blocks, size, cuts, h);                           \
    }                                                                                                                      \
    KERNEL __launch_bounds__(ROWS * 4) block_attention_dkv_##D(                                                            \
        Half *dkc, Half *dvc, Half *dkb, Half *dvb, const Half *dout, const float *lse, const float *delta,           \
        const Half *q, const Half *kc, const Half *vc, const Half *kb, const Half *vb, const int2 *blocks, int count, \
        int context, int context_tiles, int size, int cuts, int qh, int kvh, int dim, int window, float scale) {           \
        Heads h = {qh, kvh, dim, window, scale};                                                                           \
        block_dkv<D, ROWS, KEYS>(dkc, dvc, dkb, dvb, dout, lse, delta, q, kc, vc, kb, vb, blocks, count, context,          \
                                 context_tiles, size, cuts, h);                                                            \
    }

BACKWARD(32, 32, 32)
BACKWARD(64, 32, 32)
BACKWARD(128, 32, 32)
BACKWARD(256, 16, 16)
