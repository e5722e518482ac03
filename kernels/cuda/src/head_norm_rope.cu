#include "common.cuh"

#define MAX_HALF 128           // a head has at most 256 values
#define PAIRS (MAX_HALF / 32)  // per lane: i and i + half, i = lane, lane + 32, …

// angles fills the block's tables for one position: float32 angles, times factor.
__device__ inline void angles(float *cosines, float *sines, const float *inv_freq, int half, int pos, float factor) {
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        float s, c;
        sincosf((float)pos * inv_freq[i], &s, &c);
        cosines[i] = c * factor;
        sines[i] = s * factor;
    }
}

// A block per token, a warp per head in turn. w and rstd may be null; out may be x.
KERNEL head_norm_rope(float *out, const float *x, const float *w, float *rstd, const int *pos, const float *inv_freq,
                      int heads, int dim, float factor, float eps) {
    __shared__ float cosines[MAX_HALF], sines[MAX_HALF];
    int half = dim / 2, t = blockIdx.x, lane = lane_id();
    angles(cosines, sines, inv_freq, half, pos[t], factor);
    __syncthreads();
    for (int h = warp_id(); h < heads; h += blockDim.x >> 5) {
        i64 at = ((i64)t * heads + h) * dim;
        float a[PAIRS], b[PAIRS], sum = 0;
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            int i = lane + 32 * p;
            a[p] = i < half ? x[at + i] : 0;
            b[p] = i < half ? x[at + i + half] : 0;
            sum += a[p] * a[p] + b[p] * b[p];
        }
        if (w) {
            float r = 1.0f / sqrtf(warp_sum(sum) / dim + eps);
            if (rstd && lane == 0) rstd[(i64)t * heads + h] = r;
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                int i = lane + 32 * p;
                if (i < half) {
                    a[p] = w[i] * (a[p] * r);
                    b[p] = w[i + half] * (b[p] * r);
                }
            }
        }
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            int i = lane + 32 * p;
            if (i < half) {
                out[at + i] = a[p] * cosines[i] - b[p] * sines[i];
                out[at + i + half] = b[p] * cosines[i] + a[p] * sines[i];
            }
        }
    }
}

// Turns dout back and goes through the norm. Block p takes tokens p, p + parts, …; partial[p] [dim] receives its part of
// dw, Σ dout·x̂. Without w, dx is dout turned back and partial is not written.
KERNEL head_norm_rope_backward(float *dx, float *partial, const float *dout, const float *x, const float *w, const float *rstd,
                               const int *pos, const float *inv_freq, int tokens, int heads, int dim, float factor) {
    __shared__ float cosines[MAX_HALF], sines[MAX_HALF];
    __shared__ float sums[8][2 * MAX_HALF];
    int half = dim / 2, lane = lane_id(), warps = blockDim.x >> 5;
    float da[PAIRS], db[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; p++) da[p] = db[p] = 0;
    for (int t = blockIdx.x; t < tokens; t += gridDim.x) {
        __syncthreads();
        angles(cosines, sines, inv_freq, half, pos[t], factor);
        __syncthreads();
        for (int h = warp_id(); h < heads; h += warps) {
            i64 at = ((i64)t * heads + h) * dim;
            float ga[PAIRS], gb[PAIRS], xa[PAIRS], xb[PAIRS], sum = 0;
            float r = w ? rstd[(i64)t * heads + h] : 1.0f;
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                int i = lane + 32 * p;
                ga[p] = gb[p] = xa[p] = xb[p] = 0;
                if (i < half) {
                    float a = dout[at + i], b = dout[at + i + half];
                    ga[p] = a * cosines[i] + b * sines[i];
                    gb[p] = b * cosines[i] - a * sines[i];
                    if (w) {
                        xa[p] = x[at + i] * r;
                        xb[p] = x[at + i + half] * r;
                        da[p] += ga[p] * xa[p];
                        db[p] += gb[p] * xb[p];
                        ga[p] *= w[i];
                        gb[p] *= w[i + half];
                        sum += ga[p] * xa[p] + gb[p] * xb[p];
                    }
                }
            }
            float mean = w ? warp_sum(sum) / dim : 0;
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                int i = lane + 32 * p;
                if (i < half) {
                    dx[at + i] = r * (ga[p] - xa[p] * mean);
                    dx[at + i + half] = r * (gb[p] - xb[p] * mean);
                }
            }
        }
    }
    if (!w) return;
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        int i = lane + 32 * p;
        if (i < half) {
            sums[warp_id()][i] = da[p];
            sums[warp_id()][i + half] = db[p];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float sum = 0;
        for (int v = 0; v < warps; v++) sum += sums[v][i];
        partial[(i64)blockIdx.x * dim + i] = sum;
    }
}
