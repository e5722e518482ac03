#include "common.cuh"

// out[i] = table[rows[i]], a block per row.
KERNEL gather(float *out, const float *table, const int *rows, int cols) {
    float *d = out + (i64)blockIdx.x * cols;
    const float *s = table + (i64)rows[blockIdx.x] * cols;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) d[j] = s[j];
}
