#include "common.cuh"

KERNEL scale(float *t, float s, i64 n) {
    for_each(i, n) t[i] *= s;
}
