#include "attention_mma_forward.cuh"

// o = softmax(scale·q·[kc, kb]ᵀ)·[vc, vb], lse = log Σ exp; grid (tiles of the slots' rows · key heads). Blocks come sorted
// by anchor, so those of a tile see nearly the same context; the tiles with most of a document's context start first.
template <int D>
__device__ void block_forward(u16 *o, float *lse, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb,
                              const int2 *blocks, int slots, int size, Heads h) {
    typedef ForwardMMA<D> F;
    extern __shared__ __align__(1024) char shared[];
    int tile = gridDim.x / h.kv - 1 - blockIdx.x / h.kv, head = blockIdx.x % h.kv, group = h.q / h.kv;
    List l = {0, slots * group, head, h.q, Group(group)};
    int first = tile * F::rows;
    Keys<F::keys> ks = block_keys<D, F::keys, F::rows>((Range *)(shared + F::ranges_at), blocks, l, first, kc, vc, kb, vb, size, h);
    F::run(shared, o, lse, q, l, first, ks, h.scale);
}

#define BLOCK(D)                                                                                                           \
    KERNEL __launch_bounds__(ForwardMMA<D>::threads, 2) block_attention_mma_##D(                                         \
        u16 *o, float *lse, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks,  \
        int slots, int size, int qh, int kvh, int window, float scale) {                                                   \
        Heads h = {qh, kvh, D, window, scale};                                                                             \
        block_forward<D>(o, lse, q, kc, vc, kb, vb, blocks, slots, size, h);                                               \
    }

BLOCK(64)
BLOCK(128)
