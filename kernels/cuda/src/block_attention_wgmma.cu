#include "attention_wgmma_forward.cuh"

#ifdef WGMMA
struct BlockTile {
    List l;
    int first, size;
    Stream s;
    const int2 *blocks;
    Heads h;

    __device__ void sees(int slot, Range &context, Range &own) const {
        context = context_range(blocks, slot, size, h);
        own = own_range(slot, size, h.window);
    }
};

template <int D> struct BlockWork {
    const u16 *kc, *vc, *kb, *vb;
    const int2 *blocks;
    int slots, size, items;
    Heads h;

    // Tiles of later rows, which see most of a document's context, come first.
    __device__ BlockTile tile(int i) const {
        const int rows = ForwardWGMMA<D>::rows;
        int group = h.q / h.kv, first = (items - 1 - i) / h.kv * rows;
        List l = {0, slots * group, i % h.kv, h.q, Group(group)};
        BlockTile t = {l, first, size, block_stream<D>(blocks, l, first, rows, kc, vc, kb, vb, size, h), blocks, h};
        return t;
    }
};

// o = softmax(scale·q·[kc, kb]ᵀ)·[vc, vb], lse = log Σ exp, over `items` = tiles of the slots' rows · key heads.
#define BLOCK(D)                                                                                                           \
    KERNEL __launch_bounds__(ForwardWGMMA<D>::threads, 1) block_attention_wgmma_##D(                                       \
        u16 *o, float *lse, const u16 *q, const u16 *kc, const u16 *vc, const u16 *kb, const u16 *vb, const int2 *blocks,  \
        int slots, int size, int items, int qh, int kvh, int window, float scale) {                                        \
        extern __shared__ __align__(1024) char shared[];                                                                   \
        Heads h = {qh, kvh, D, window, scale};                                                                             \
        BlockWork<D> work = {kc, vc, kb, vb, blocks, slots, size, items, h};                                               \
        ForwardWGMMA<D>::run(shared, o, lse, q, work, items, scale);                                                       \
    }

BLOCK(64)
BLOCK(128)
#endif
