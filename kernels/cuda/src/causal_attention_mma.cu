#include "attention_mma_forward.cuh"

// A unit of work: query rows first.. of the segment's queries [q0, q1), whose last stands at key k1 - 1.
struct Unit {
    int q0, q1, k0, k1, first;
};

// o = softmax(scale·q·kᵀ)·v; grid (units · key heads), the units with most keys first.
template <int D>
__device__ void causal(u16 *o, const u16 *q, const u16 *k, const u16 *v, const Unit *units, Heads h) {
    typedef ForwardMMA<D> F;
    extern __shared__ __align__(1024) char shared[];
    Unit u = units[blockIdx.x / h.kv];
    int head = blockIdx.x % h.kv, group = h.q / h.kv;
    List l = {u.q0, (u.q1 - u.q0) * group, head, h.q, Group(group)};
    int shift = u.k1 - u.q1 + u.q0; // the key at which the segment's first query stands

    auto range = [&](int r) {
        int hi = shift + l.group.query(r) + 1;
        Range seen = {h.window > 0 && hi - h.window > u.k0 ? hi - h.window : u.k0, hi};
        return seen;
    };
    Range none = {0, 0}, *ranges = (Range *)(shared + F::ranges_at);
    int r = u.first + threadIdx.x, last = min(u.first + F::rows, l.n) - 1;
    ranges[threadIdx.x] = r < l.n ? range(r) : none;
    ranges[F::rows + threadIdx.x] = none;
    __syncthreads();
    i64 column = (i64)head * D;
    Source keys = {k + column, v + column};
    Keys<F::keys> ks = {keys, keys, range(u.first).lo, range(last).hi, 0, 0, h.kv * D};
    F::run(shared, o, 0, q, l, u.first, ks, h.scale);
}

#define CAUSAL(D)                                                                                                         \
    KERNEL __launch_bounds__(ForwardMMA<D>::threads, 2)                                                                  \
        causal_attention_mma_##D(u16 *o, const u16 *q, const u16 *k, const u16 *v, const Unit *units, int qh, int kvh,   \
                                  int window, float scale) {                                                              \
        Heads h = {qh, kvh, D, window, scale};                                                                            \
        causal<D>(o, q, k, v, units, h);                                                                                  \
    }

CAUSAL(64)
CAUSAL(128)
