#include "half.cuh"

// A block per row of x [T, C]; rstd may be null.
KERNEL rms_norm(Half *out, const Half *x, const float *w, float *rstd, int cols, float eps) {
    __shared__ float shared[32];
    const Half *row = x + (i64)blockIdx.x * cols;
    Half *to = out + (i64)blockIdx.x * cols;
    bool whole = aligned(row) && aligned(to) && aligned(w);
    float sum = 0;
    for_row(j, cols) {
        Pack v = take(row + j, cols - j, whole);
        each(k) sum += v.v[k] * v.v[k];
    }
    float r = 1.0f / sqrtf(block_sum(sum, shared) / cols + eps);
    for_row(j, cols) {
        Pack v = take(row + j, cols - j, whole), by = take(w + j, cols - j, whole);
        each(k) v.v[k] = by.v[k] * (v.v[k] * r);
        put(to + j, v, cols - j, whole);
    }
    if (rstd && threadIdx.x == 0) rstd[blockIdx.x] = r;
}

// dx = or += r·(dout·w - x̂·mean(dout·w·x̂)), a block per row.
KERNEL rms_norm_dx(Half *dx, const Half *dout, const Half *x, const float *w, const float *rstd, int cols, int accumulate) {
    __shared__ float shared[32];
    i64 at = (i64)blockIdx.x * cols;
    const Half *dy = dout + at, *row = x + at;
    Half *to = dx + at;
    bool whole = aligned(dy) && aligned(row) && aligned(to) && aligned(w);
    float r = rstd[blockIdx.x], sum = 0;
    for_row(j, cols) {
        Pack g = take(dy + j, cols - j, whole), v = take(row + j, cols - j, whole), by = take(w + j, cols - j, whole);
        each(k) sum += g.v[k] * by.v[k] * (v.v[k] * r);
    }
    float mean = block_sum(sum, shared) / cols;
    for_row(j, cols) {
        Pack g = take(dy + j, cols - j, whole), v = take(row + j, cols - j, whole), by = take(w + j, cols - j, whole);
        each(k) g.v[k] = r * (g.v[k] * by.v[k] - v.v[k] * r * mean);
        if (accumulate) {
            Pack old = take(to + j, cols - j, whole);
            each(k) g.v[k] += old.v[k];
        }
        put(to + j, g, cols - j, whole);
    }
}

// partial[p, j] = Σ dout·x̂ over the rows of part p; grid (packs of columns, parts).
KERNEL rms_norm_dw(float *partial, const Half *dout, const Half *x, const float *rstd, int rows, int cols, int part) {
    int j = (blockIdx.x * blockDim.x + threadIdx.x) * PACK;
    if (j >= cols) return;
    int lo = blockIdx.y * part, hi = lo + part < rows ? lo + part : rows;
    bool whole = aligned(dout) && aligned(x) && cols % PACK == 0;
    Pack sum;
    each(k) sum.v[k] = 0;
    for (int t = lo; t < hi; t++) {
        i64 at = (i64)t * cols + j;
        Pack g = take(dout + at, cols - j, whole), v = take(x + at, cols - j, whole);
        float r = rstd[t];
        each(k) sum.v[k] += g.v[k] * (v.v[k] * r);
    }
    each(k) if (j + k < cols) partial[(i64)blockIdx.y * cols + j + k] = sum.v[k];
}
