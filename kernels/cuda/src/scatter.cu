#include "common.cuh"

// out[rows[i]] = x[i], a block per row.
KERNEL scatter(float *out, const float *x, const int *rows, int cols) {
    float *d = out + (i64)rows[blockIdx.x] * cols;
    const float *s = x + (i64)blockIdx.x * cols;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) d[j] = s[j];
}
