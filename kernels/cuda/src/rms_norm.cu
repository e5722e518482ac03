#include "common.cuh"

// A block per row of x [T, C]; rstd may be null.
KERNEL rms_norm(float *out, const float *x, const float *w, float *rstd, int cols, float eps) {
    __shared__ float shared[32];
    const float *row = x + (i64)blockIdx.x * cols;
    float *to = out + (i64)blockIdx.x * cols;
    float sum = 0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += row[j] * row[j];
    float r = 1.0f / sqrtf(block_sum(sum, shared) / cols + eps);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) to[j] = w[j] * (row[j] * r);
    if (rstd && threadIdx.x == 0) rstd[blockIdx.x] = r;
}

// dx = or += r·(dout·w - x̂·mean(dout·w·x̂)), a block per row.
KERNEL rms_norm_dx(float *dx, const float *dout, const float *x, const float *w, const float *rstd, int cols, int accumulate) {
    __shared__ float shared[32];
    i64 at = (i64)blockIdx.x * cols;
    float r = rstd[blockIdx.x], sum = 0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += dout[at + j] * w[j] * (x[at + j] * r);
    float mean = block_sum(sum, shared) / cols;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        float v = r * (dout[at + j] * w[j] - x[at + j] * r * mean);
        dx[at + j] = accumulate ? dx[at + j] + v : v;
    }
}

// partial[p, j] = Σ dout·x̂ over the rows of part p; grid (columns, parts).
KERNEL rms_norm_dw(float *partial, const float *dout, const float *x, const float *rstd, int rows, int cols, int part) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= cols) return;
    int lo = blockIdx.y * part, hi = lo + part < rows ? lo + part : rows;
    float sum = 0;
    for (int t = lo; t < hi; t++) sum += dout[(i64)t * cols + j] * (x[(i64)t * cols + j] * rstd[t]);
    partial[(i64)blockIdx.y * cols + j] = sum;
}
