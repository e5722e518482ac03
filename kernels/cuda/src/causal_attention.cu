#include "half.cuh"
#include "attention.cuh"

// A unit of work: query rows first.. of the segment's queries [q0, q1), whose last stands at key k1 - 1.
struct Unit {
    int q0, q1, k0, k1, first;
};

// Grid (units, key heads).
template <int D, int ROWS, int KEYS>
__device__ void causal(Half *o, const Half *q, const Half *k, const Half *v, const Unit *units, Heads h) {
    typedef Tile<D, ROWS, KEYS> T;
    Unit u = units[blockIdx.x];
    int head = blockIdx.y, group = h.q / h.kv, n = (u.q1 - u.q0) * group;
    Forward<D, ROWS, KEYS> f;
    T::load_queries(f.q, q, u.q0, u.first, n, head, group, h);
    int lo[4], hi[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = u.first + threadIdx.x / 16 * 4 + i;
        hi[i] = r < n ? u.k1 - (u.q1 - (u.q0 + r / group)) + 1 : 0;
        lo[i] = h.window > 0 && hi[i] - h.window > u.k0 ? hi[i] - h.window : u.k0;
    }
    int last = u.first + ROWS < n ? u.first + ROWS - 1 : n - 1;
    int to = u.k1 - (u.q1 - (u.q0 + last / group)) + 1, from = u.k0;
    if (h.window > 0) {
        int first = u.k1 - (u.q1 - (u.q0 + u.first / group)) + 1 - h.window;
        from = first > from ? first : from;
    }
    f.keys(k + head * h.dim, v + head * h.dim, from, to, lo, hi, h);
    f.store(o, 0, u.q0, u.first, n, head, group, h);
}

#define CAUSAL(D, ROWS, KEYS)                                                                                        \
    KERNEL __launch_bounds__(ROWS * 4) causal_attention_##D(Half *o, const Half *q, const Half *k, const Half *v, \
                                                            const Unit *units, int qh, int kvh, int dim, int window, \
                                                            float scale) {                                           \
        Heads h = {qh, kvh, dim, window, scale};                                                                     \
        causal<D, ROWS, KEYS>(o, q, k, v, units, h);                                                                 \
    }

CAUSAL(32, 64, 32)
CAUSAL(64, 64, 32)
CAUSAL(128, 64, 32)
CAUSAL(256, 32, 16)
