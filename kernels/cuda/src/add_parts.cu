#include "common.cuh"

#define WARPS 8

// out[j] += Σ_p partial[p, j]. A block takes 32 columns; warp w the parts w, w + 8, …, and the warps' sums are added in order.
KERNEL __launch_bounds__(32 * WARPS) add_parts(float *out, const float *partial, int parts, int cols) {
    __shared__ float sums[WARPS][32];
    int j = blockIdx.x * 32 + lane_id();
    float sum = 0;
    if (j < cols) {
#pragma unroll 4
        for (int p = warp_id(); p < parts; p += WARPS) sum += partial[(i64)p * cols + j];
    }
    sums[warp_id()][lane_id()] = sum;
    __syncthreads();
    if (warp_id() > 0 || j >= cols) return;
    sum = out[j];
    for (int w = 0; w < WARPS; w++) sum += sums[w][lane_id()];
    out[j] = sum;
}
