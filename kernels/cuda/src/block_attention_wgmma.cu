#include "attention_wgmma_forward.cuh"

#ifdef WGMMA
// o = softmax(scale·q·[kc, kb]ᵀ)·[vc, vb], lse = log Σ exp, over `items` = tiles of the slots' rows · key heads.
#define BLOCK(D)                                                                                                           \
    KERNEL __launch_bounds__(ForwardWGMMA<D>::threads, 1) block_attention_wgmma_##D(                                       \
        u16 *o, float *lse, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks,  \
        int slots, int size, int qh, int kvh, int window, float scale, int items) {                                        \
        extern __shared__ __align__(1024) char shared[];                                                                   \
        Heads h = {qh, kvh, D, window, scale};                                                                             \
        BlockWork<D> work = {kc, vc, kb, vb, blocks, slots, size, items, h};                                               \
        ForwardWGMMA<D>::run(shared, o, lse, q, work, items, scale);                                                       \
    }

BLOCK(64)
BLOCK(128)
#endif
