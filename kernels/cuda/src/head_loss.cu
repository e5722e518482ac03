#include "common.cuh"

// A block per row of z [R, V]: the loss, whether the label is the first maximum, and, with weight not null, z becomes
// weight·(softmax(z) - onehot(label)). hit may be null.
KERNEL head_loss(float *ce, float *hit, float *z, const float *weight, const int *labels, int vocab) {
    __shared__ Top tops[32];
    __shared__ float shared[32];
    int i = blockIdx.x, label = labels[i];
    float *row = z + (i64)i * vocab;
    Top top = first_max(row, vocab, tops);
    float sum = 0;
    for (int v = threadIdx.x; v < vocab; v += blockDim.x) sum += expf(row[v] - top.value);
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) {
        ce[i] = logf(sum) + (top.value - row[label]);
        if (hit) hit[i] = top.at == label ? 1.0f : 0.0f;
    }
    if (!weight) return;
    __syncthreads();
    float scale = weight[i];
    for (int v = threadIdx.x; v < vocab; v += blockDim.x) {
        float p = expf(row[v] - top.value) / sum;
        row[v] = scale * (v == label ? p - 1.0f : p);
    }
}
