#include "half.cuh"

// Online is a running softmax: the first maximum of what was seen and Σ exp(value - maximum) (Milakov and Gimelshein, 2018).
struct Online {
    Top top;
    float sum;
};

__device__ inline Online join(Online a, Online b) {
    Online r = {better(a.top, b.top), 0};
    if (a.top.value > -INF) r.sum += a.sum * expf(a.top.value - r.top.value);
    if (b.top.value > -INF) r.sum += b.sum * expf(b.top.value - r.top.value);
    return r;
}

__device__ inline void see(Online &o, float v, int at) {
    if (v > o.top.value) {
        o.sum = o.sum * expf(o.top.value - v) + 1.0f;
        o.top.value = v;
        o.top.at = at;
    } else {
        o.sum += expf(v - o.top.value);
    }
}

// A block per row of z [R, V]: the loss, whether the label is the first maximum, and, with g not null,
// g = weight·(softmax(z) - onehot(label)). hit may be null.
KERNEL head_loss(float *ce, float *hit, Half *g, const float *z, const float *weight, const int *labels, int vocab) {
    __shared__ Online shared[32];
    int i = blockIdx.x, label = labels[i];
    const float *row = z + (i64)i * vocab;
    bool whole = aligned(row);
    Online o = {{-INF, 0x7fffffff}, 0};
    for_row(j, vocab) {
        Pack v = take(row + j, vocab - j, whole);
        each(k) if (j + k < vocab) see(o, v.v[k], j + k);
    }
    for (int d = 16; d > 0; d >>= 1) {
        Online other = {{__shfl_xor_sync(FULL_WARP, o.top.value, d), __shfl_xor_sync(FULL_WARP, o.top.at, d)},
                        __shfl_xor_sync(FULL_WARP, o.sum, d)};
        o = join(o, other);
    }
    if (lane_id() == 0) shared[warp_id()] = o;
    __syncthreads();
    o = shared[0];
    for (int w = 1; w < (int)(blockDim.x >> 5); w++) o = join(o, shared[w]);
    if (threadIdx.x == 0) {
        ce[i] = logf(o.sum) + (o.top.value - row[label]);
        if (hit) hit[i] = o.top.at == label ? 1.0f : 0.0f;
    }
    if (!g) return;
    Half *to = g + (i64)i * vocab;
    bool both = whole && aligned(to);
    float scale = weight[i], each_of = 1.0f / o.sum;
    for_row(j, vocab) {
        Pack v = take(row + j, vocab - j, both);
        each(k) {
            float p = expf(v.v[k] - o.top.value) * each_of;
            v.v[k] = scale * (j + k == label ? p - 1.0f : p);
        }
        put(to + j, v, vocab - j, both);
    }
}
