#include "common.cuh"

KERNEL add_bias(float *x, const float *b, i64 n, int cols) {
    for_each(i, n) x[i] += b[i % cols];
}
