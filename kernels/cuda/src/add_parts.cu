#include "common.cuh"

// out[j] += Σ_p partial[p, j], in the order of p.
KERNEL add_parts(float *out, const float *partial, int parts, int cols) {
    for_each(j, cols) {
        float sum = 0;
        for (int p = 0; p < parts; p++) sum += partial[(i64)p * cols + j];
        out[j] += sum;
    }
}
