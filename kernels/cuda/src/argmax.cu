#include "common.cuh"

// top[i] = the first maximum of row i of z [R, V], a block per row.
KERNEL argmax(int *top, const float *z, int vocab) {
    __shared__ Top shared[32];
    Top t = first_max(z + (i64)blockIdx.x * vocab, vocab, shared);
    if (threadIdx.x == 0) top[blockIdx.x] = t.at;
}
