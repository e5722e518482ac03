#include "half.cuh"

#define MAX_HALF 128 // a head has at most 256 values
#define THREADS 256  // of a block, at most

// A lane holds PACK values of a head's first half and their partners in the second half; `lanes` lanes of a warp, a power of
// two, hold a head. All heads of a token turn by the same angles.
struct Part {
    Pack a, b;
};

// read takes a lane's values, of which n are there.
template <class E> __device__ inline Part read(const E *head, int half, int n, bool whole) {
    return {take(head, n, whole), take(head + half, n, whole)};
}

__device__ inline void put(Half *head, const Part &x, int half, int n, bool whole) {
    put(head, x.a, n, whole);
    put(head + half, x.b, n, whole);
}

// head_sum returns the sum over the lanes of a head.
__device__ inline float head_sum(float v, int lanes) {
    for (int o = lanes >> 1; o > 0; o >>= 1) v += __shfl_xor_sync(FULL_WARP, v, o);
    return v;
}

// angles fills the block's tables for one position: float32 angles, times factor.
__device__ inline void angles(float *cosines, float *sines, const float *inv_freq, int half, int pos, float factor) {
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        float s, c;
        sincosf((float)pos * inv_freq[i], &s, &c);
        cosines[i] = c * factor;
        sines[i] = s * factor;
    }
}

// A block per token. w and rstd may be null; out may be x.
KERNEL __launch_bounds__(THREADS) head_norm_rope(Half *out, const Half *x, const float *w, float *rstd, const int *pos,
                                                 const float *inv_freq, int heads, int dim, int lanes, float factor, float eps) {
    __shared__ __align__(16) float cosines[MAX_HALF], sines[MAX_HALF];
    int half = dim / 2, t = blockIdx.x, groups = blockDim.x / lanes, i = threadIdx.x % lanes * PACK;
    bool whole = half % PACK == 0 && aligned(x) && aligned(out) && aligned(w);
    Part by;
    if (w) by = read(w + i, half, half - i, whole);
    angles(cosines, sines, inv_freq, half, pos[t], factor);
    __syncthreads();
    Pack c = take(cosines + i, half - i, whole), s = take(sines + i, half - i, whole);
    for (int first = 0; first < heads; first += groups) {
        int h = first + threadIdx.x / lanes, n = h < heads ? half - i : 0;
        i64 at = ((i64)t * heads + h) * dim + i;
        Part v = read(x + at, half, n, whole);
        if (w) {
            float sum = 0;
            each(k) sum += v.a.v[k] * v.a.v[k] + v.b.v[k] * v.b.v[k];
            float r = 1.0f / sqrtf(head_sum(sum, lanes) / dim + eps);
            if (rstd && i == 0 && h < heads) rstd[(i64)t * heads + h] = r;
            each(k) {
                v.a.v[k] = by.a.v[k] * (v.a.v[k] * r);
                v.b.v[k] = by.b.v[k] * (v.b.v[k] * r);
            }
        }
        each(k) {
            float a = v.a.v[k], b = v.b.v[k];
            v.a.v[k] = a * c.v[k] - b * s.v[k];
            v.b.v[k] = b * c.v[k] + a * s.v[k];
        }
        put(out + at, v, half, n, whole);
    }
}

// Turns dout back and goes through the norm. Block p takes tokens p, p + parts, …; partial[p] [dim] receives its part of
// dw, Σ dout·x̂. Without w, dx is dout turned back and partial is not written.
KERNEL __launch_bounds__(THREADS) head_norm_rope_backward(Half *dx, float *partial, const Half *dout, const Half *x, const float *w,
                                                          const float *rstd, const int *pos, const float *inv_freq, int tokens,
                                                          int heads, int dim, int lanes, float factor) {
    __shared__ __align__(16) float cosines[MAX_HALF], sines[MAX_HALF];
    __shared__ float sums[THREADS / 32][2 * MAX_HALF];
    int half = dim / 2, groups = blockDim.x / lanes, i = threadIdx.x % lanes * PACK;
    bool whole = half % PACK == 0 && aligned(x) && aligned(dout) && aligned(dx) && aligned(w);
    Part sum; // of dw
    each(k) sum.a.v[k] = sum.b.v[k] = 0;
    for (int t = blockIdx.x; t < tokens; t += gridDim.x) {
        __syncthreads();
        angles(cosines, sines, inv_freq, half, pos[t], factor);
        __syncthreads();
        for (int first = 0; first < heads; first += groups) {
            int h = first + threadIdx.x / lanes, n = h < heads ? half - i : 0;
            i64 at = ((i64)t * heads + h) * dim + i;
            Part g = read(dout + at, half, n, whole);
            Pack c = take(cosines + i, n, whole), s = take(sines + i, n, whole);
            each(k) {
                float a = g.a.v[k], b = g.b.v[k];
                g.a.v[k] = a * c.v[k] + b * s.v[k];
                g.b.v[k] = b * c.v[k] - a * s.v[k];
            }
            if (w) {
                Part v = read(x + at, half, n, whole), by = read(w + i, half, n, whole);
                float r = n > 0 ? rstd[(i64)t * heads + h] : 0, dot = 0;
                each(k) {
                    v.a.v[k] *= r;
                    v.b.v[k] *= r;
                    sum.a.v[k] += g.a.v[k] * v.a.v[k];
                    sum.b.v[k] += g.b.v[k] * v.b.v[k];
                    g.a.v[k] *= by.a.v[k];
                    g.b.v[k] *= by.b.v[k];
                    dot += g.a.v[k] * v.a.v[k] + g.b.v[k] * v.b.v[k];
                }
                float mean = head_sum(dot, lanes) / dim;
                each(k) {
                    g.a.v[k] = r * (g.a.v[k] - v.a.v[k] * mean);
                    g.b.v[k] = r * (g.b.v[k] - v.b.v[k] * mean);
                }
            }
            put(dx + at, g, half, n, whole);
        }
    }
    if (!w) return;
    each(k) for (int o = 16; o >= lanes; o >>= 1) {
        sum.a.v[k] += __shfl_xor_sync(FULL_WARP, sum.a.v[k], o);
        sum.b.v[k] += __shfl_xor_sync(FULL_WARP, sum.b.v[k], o);
    }
    if (lane_id() < lanes) each(k) if (i + k < half) {
        sums[warp_id()][i + k] = sum.a.v[k];
        sums[warp_id()][i + k + half] = sum.b.v[k];
    }
    __syncthreads();
    for (int j = threadIdx.x; j < dim; j += blockDim.x) {
        float all = 0;
        for (int v = 0; v < (int)(blockDim.x >> 5); v++) all += sums[v][j];
        partial[(i64)blockIdx.x * dim + j] = all;
    }
}
