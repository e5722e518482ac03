#include "common.cuh"

// partial[b] = the part of Σ t² that block b takes.
KERNEL sum_squares(double *partial, const float *t, i64 n) {
    __shared__ double shared[32];
    double sum = 0;
    for_each(i, n) {
        double v = t[i];
        sum += v * v;
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
