#include "half.cuh"

#define MAX_HALF 128          // a head has at most 256 values
#define TWOS (MAX_HALF / 64)  // a lane's: i, i + 1 and their partners i + half, i = 2·lane, 2·lane + 64, …

struct Two {
    float v[2];
};

// both reads two elements, of which n are there, the others being 0. With `whole`, p is aligned to two elements.
__device__ inline Two both(const Half *p, int n, bool whole) {
    Two x = {{0, 0}};
    if (whole && n >= 2) {
#ifdef HALF_BF16
        __nv_bfloat162 h = *(const __nv_bfloat162 *)p;
        x.v[0] = float(h.x), x.v[1] = float(h.y);
#else
        float2 h = *(const float2 *)p;
        x.v[0] = h.x, x.v[1] = h.y;
#endif
    } else {
        if (n > 0) x.v[0] = float(p[0]);
        if (n > 1) x.v[1] = float(p[1]);
    }
    return x;
}

__device__ inline void put_both(Half *p, Two x, int n, bool whole) {
    if (whole && n >= 2) {
#ifdef HALF_BF16
        *(__nv_bfloat162 *)p = __floats2bfloat162_rn(x.v[0], x.v[1]);
#else
        *(float2 *)p = make_float2(x.v[0], x.v[1]);
#endif
    } else {
        if (n > 0) p[0] = Half(x.v[0]);
        if (n > 1) p[1] = Half(x.v[1]);
    }
}

__device__ inline bool by_two(const void *p, int half) { return half % 2 == 0 && (size_t)p % (2 * sizeof(Half)) == 0; }

// Part is a lane's part of one head.
struct Part {
    Two a[TWOS], b[TWOS];
};

#define each_two(p, i) _Pragma("unroll") for (int p = 0, i = 2 * lane_id(); p < TWOS; p++, i += 64)

// angles fills the block's tables for one position: float32 angles, times factor.
__device__ inline void angles(float *cosines, float *sines, const float *inv_freq, int half, int pos, float factor) {
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        float s, c;
        sincosf((float)pos * inv_freq[i], &s, &c);
        cosines[i] = c * factor;
        sines[i] = s * factor;
    }
}

__device__ inline Part read(const Half *head, int half, bool whole) {
    Part x;
    each_two(p, i) {
        x.a[p] = both(head + i, half - i, whole);
        x.b[p] = both(head + i + half, half - i, whole);
    }
    return x;
}

// A block per token, a warp per head in turn, which reads the next head before it works on one. w and rstd may be null; out
// may be x.
KERNEL __launch_bounds__(256, 6) head_norm_rope(Half *out, const Half *x, const float *w, float *rstd, const int *pos, const float *inv_freq,
                      int heads, int dim, float factor, float eps) {
    __shared__ float cosines[MAX_HALF], sines[MAX_HALF];
    int half = dim / 2, t = blockIdx.x;
    bool whole = by_two(x, half) && by_two(out, half);
    int h = warp_id(), warps = blockDim.x >> 5;
    Part next = read(x + ((i64)t * heads + h) * dim, half, whole);
    angles(cosines, sines, inv_freq, half, pos[t], factor);
    __syncthreads();
    for (; h < heads; h += warps) {
        i64 at = ((i64)t * heads + h) * dim;
        Part own = next;
        Two *a = own.a, *b = own.b;
        if (h + warps < heads) next = read(x + at + (i64)warps * dim, half, whole);
        float sum = 0;
        each_two(p, i) for (int e = 0; e < 2; e++) sum += a[p].v[e] * a[p].v[e] + b[p].v[e] * b[p].v[e];
        if (w) {
            float r = 1.0f / sqrtf(warp_sum(sum) / dim + eps);
            if (rstd && lane_id() == 0) rstd[(i64)t * heads + h] = r;
            each_two(p, i) for (int e = 0; e < 2; e++) if (i + e < half) {
                a[p].v[e] = w[i + e] * (a[p].v[e] * r);
                b[p].v[e] = w[i + e + half] * (b[p].v[e] * r);
            }
        }
        each_two(p, i) {
            Two c, d;
            for (int e = 0; e < 2; e++) if (i + e < half) {
                float cosine = cosines[i + e], sine = sines[i + e];
                c.v[e] = a[p].v[e] * cosine - b[p].v[e] * sine;
                d.v[e] = b[p].v[e] * cosine + a[p].v[e] * sine;
            }
            put_both(out + at + i, c, half - i, whole);
            put_both(out + at + i + half, d, half - i, whole);
        }
    }
}

// Turns dout back and goes through the norm. Block p takes tokens p, p + parts, …; partial[p] [dim] receives its part of
// dw, Σ dout·x̂. Without w, dx is dout turned back and partial is not written.
KERNEL __launch_bounds__(256, 5) head_norm_rope_backward(Half *dx, float *partial, const Half *dout, const Half *x, const float *w, const float *rstd,
                               const int *pos, const float *inv_freq, int tokens, int heads, int dim, float factor) {
    __shared__ float cosines[MAX_HALF], sines[MAX_HALF];
    __shared__ float sums[8][2 * MAX_HALF];
    int half = dim / 2, warps = blockDim.x >> 5;
    bool whole = by_two(x, half) && by_two(dout, half) && by_two(dx, half);
    Two da[TWOS], db[TWOS];
    each_two(p, i) for (int e = 0; e < 2; e++) da[p].v[e] = db[p].v[e] = 0;
    for (int t = blockIdx.x; t < tokens; t += gridDim.x) {
        __syncthreads();
        angles(cosines, sines, inv_freq, half, pos[t], factor);
        __syncthreads();
        for (int h = warp_id(); h < heads; h += warps) {
            i64 at = ((i64)t * heads + h) * dim;
            Two ga[TWOS], gb[TWOS], xa[TWOS], xb[TWOS];
            float r = w ? rstd[(i64)t * heads + h] : 1.0f, sum = 0;
            each_two(p, i) {
                Two a = both(dout + at + i, half - i, whole), b = both(dout + at + i + half, half - i, whole);
                if (w) {
                    xa[p] = both(x + at + i, half - i, whole);
                    xb[p] = both(x + at + i + half, half - i, whole);
                }
                for (int e = 0; e < 2; e++) {
                    ga[p].v[e] = gb[p].v[e] = 0;
                    if (i + e >= half) continue;
                    float cosine = cosines[i + e], sine = sines[i + e];
                    ga[p].v[e] = a.v[e] * cosine + b.v[e] * sine;
                    gb[p].v[e] = b.v[e] * cosine - a.v[e] * sine;
                    if (!w) continue;
                    xa[p].v[e] *= r;
                    xb[p].v[e] *= r;
                    da[p].v[e] += ga[p].v[e] * xa[p].v[e];
                    db[p].v[e] += gb[p].v[e] * xb[p].v[e];
                    ga[p].v[e] *= w[i + e];
                    gb[p].v[e] *= w[i + e + half];
                    sum += ga[p].v[e] * xa[p].v[e] + gb[p].v[e] * xb[p].v[e];
                }
            }
            float mean = w ? warp_sum(sum) / dim : 0;
            each_two(p, i) {
                if (w) for (int e = 0; e < 2; e++) {
                    ga[p].v[e] = r * (ga[p].v[e] - xa[p].v[e] * mean);
                    gb[p].v[e] = r * (gb[p].v[e] - xb[p].v[e] * mean);
                }
                put_both(dx + at + i, ga[p], half - i, whole);
                put_both(dx + at + i + half, gb[p], half - i, whole);
            }
        }
    }
    if (!w) return;
    each_two(p, i) for (int e = 0; e < 2; e++) if (i + e < half) {
        sums[warp_id()][i + e] = da[p].v[e];
        sums[warp_id()][i + e + half] = db[p].v[e];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float sum = 0;
        for (int v = 0; v < warps; v++) sum += sums[v][i];
        partial[(i64)blockIdx.x * dim + i] = sum;
    }
}
