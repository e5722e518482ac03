#include "common.cuh"

KERNEL add(float *dst, const float *src, i64 n) {
    for_each(i, n) dst[i] += src[i];
}
