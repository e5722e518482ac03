#include "attention_wgmma_forward.cuh"

#ifdef WGMMA
// A unit of work: query rows first.. of the segment's queries [q0, q1), whose last stands at key k1 - 1.
struct Unit {
    int q0, q1, k0, k1, first;
};

struct CausalTile {
    Unit u;
    List l;
    int first, window;
    Stream s;

    __device__ Range range(int query) const {
        int hi = u.k1 - u.q1 + u.q0 + query + 1;
        Range seen = {window > 0 && hi - window > u.k0 ? hi - window : u.k0, hi};
        return seen;
    }
    __device__ void sees(int query, Range &context, Range &) const { context = range(query); }
};

template <int D> struct CausalWork {
    const u16 *k, *v;
    const Unit *units;
    Heads h;

    __device__ CausalTile tile(int i) const {
        Unit u = units[i / h.kv];
        int head = i % h.kv, group = h.q / h.kv;
        i64 column = (i64)head * D;
        List l = {u.q0, (u.q1 - u.q0) * group, head, h.q, Group(group)};
        Source keys = {k + column, v + column};
        Stream none = {keys, keys, 0, 0, 0, 0, h.kv * D};
        CausalTile t = {u, l, u.first, h.window, none};
        t.s.from = t.range(l.group.query(u.first)).lo;
        t.s.to = t.range(l.group.query(min(u.first + ForwardWGMMA<D>::rows, l.n) - 1)).hi;
        return t;
    }
};

// o = softmax(scale·q·kᵀ)·v over `items` = units · key heads, the units with most keys first.
#define CAUSAL(D)                                                                                                          \
    KERNEL __launch_bounds__(ForwardWGMMA<D>::threads, 1)                                                                  \
        causal_attention_wgmma_##D(u16 *o, const u16 *q, const u16 *k, const u16 *v, const Unit *units, int qh, int kvh,  \
                                   int window, float scale, int items) {                                                   \
        extern __shared__ __align__(1024) char shared[];                                                                   \
        Heads h = {qh, kvh, D, window, scale};                                                                             \
        CausalWork<D> work = {k, v, units, h};                                                                             \
        ForwardWGMMA<D>::run(shared, o, 0, q, work, items, scale);                                                         \
    }

CAUSAL(64)
CAUSAL(128)
#endif
