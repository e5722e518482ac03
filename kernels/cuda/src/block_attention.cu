#include "half.cuh"
#include "attention.cuh"

// Grid (blocks · tiles a block, key heads); the slots of a block are one list of queries, whose rows are cut into tiles.
template <int D, int ROWS, int KEYS>
__device__ void block_forward(Half *o, float *lse, const Half *q, const Half *kc, const Half *vc, const Half *kb,
                              const Half *vb, const int2 *blocks, int size, int cuts, Heads h) {
    typedef Tile<D, ROWS, KEYS> T;
    int n = blockIdx.x / cuts, first = blockIdx.x % cuts * ROWS;
    int head = blockIdx.y, group = h.q / h.kv, rows = size * group, base = n * size;
    int2 block = blocks[n];
    Forward<D, ROWS, KEYS> f;
    T::load_queries(f.q, q, base, first, rows, head, group, h);
    int lo[4], hi[4], zero[4] = {0, 0, 0, 0}, slots[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = first + threadIdx.x / 16 * 4 + i;
        Sight s = sight(block, r / group, size, h);
        lo[i] = s.lo, hi[i] = r < rows ? s.anchor : 0, slots[i] = r < rows ? s.slots : 0;
    }
    int last = first + ROWS < rows ? first + ROWS - 1 : rows - 1;
    f.keys(kc + head * h.dim, vc + head * h.dim, sight(block, first / group, size, h).lo, block.y, lo, hi, h);
    i64 own = ((i64)base * h.kv + head) * h.dim;
    f.keys(kb + own, vb + own, 0, sight(block, last / group, size, h).slots, zero, slots, h);
    f.store(o, lse, base, first, rows, head, group, h);
}

#define BLOCK(D, ROWS, KEYS)                                                                                           \
    KERNEL __launch_bounds__(ROWS * 4) block_attention_##D(                                                            \
        Half *o, float *lse, const Half *q, const Half *kc, const Half *vc, const Half *kb, const Half *vb,      \
        const int2 *blocks, int size, int cuts, int qh, int kvh, int dim, int window, float scale) {                   \
        Heads h = {qh, kvh, dim, window, scale};                                                                       \
        block_forward<D, ROWS, KEYS>(o, lse, q, kc, vc, kb, vb, blocks, size, cuts, h);                                \
    }

BLOCK(32, 64, 32)
BLOCK(64, 64, 32)
BLOCK(128, 64, 32)
BLOCK(256, 32, 16)
