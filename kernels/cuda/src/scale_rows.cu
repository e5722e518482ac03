#include "common.cuh"

KERNEL scale_rows(float *t, const float *s, i64 n, int cols) {
    for_each(i, n) t[i] *= s[i / cols];
}
