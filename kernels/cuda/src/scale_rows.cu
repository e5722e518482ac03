#include "half.cuh"

// A block per row of t.
KERNEL scale_rows(Half *t, const float *s, int cols) {
    Half *row = t + (i64)blockIdx.x * cols;
    float by = s[blockIdx.x];
    bool whole = aligned(row);
    for_row(j, cols) {
        Pack v = take(row + j, cols - j, whole);
        each(k) v.v[k] *= by;
        put(row + j, v, cols - j, whole);
    }
}
