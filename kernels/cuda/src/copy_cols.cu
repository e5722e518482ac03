#include "common.cuh"

// dst[:, at:at+cols] = src, a block per row.
KERNEL copy_cols(float *dst, const float *src, int stride, int at, int cols) {
    float *d = dst + (i64)blockIdx.x * stride + at;
    const float *s = src + (i64)blockIdx.x * cols;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) d[j] = s[j];
}
