#include "half.cuh"

// A block per row of x.
KERNEL add_bias(Half *x, const float *b, int cols) {
    Half *row = x + (i64)blockIdx.x * cols;
    bool whole = aligned(row) && aligned(b);
    for_row(j, cols) {
        Pack v = take(row + j, cols - j, whole), w = take(b + j, cols - j, whole);
        each(k) v.v[k] += w.v[k];
        put(row + j, v, cols - j, whole);
    }
}
