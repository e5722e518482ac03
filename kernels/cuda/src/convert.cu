#include "common.cuh"
#include <cuda_bf16.h>

// Four elements a thread; n elements in all.
template <class To, class From> __device__ void convert(To *dst, const From *src, i64 n) {
    for_each(i, (n + 3) / 4) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (4 * i + k < n) dst[4 * i + k] = To(float(src[4 * i + k]));
    }
}

KERNEL round_bf16(__nv_bfloat16 *dst, const float *src, i64 n) { convert(dst, src, n); }

KERNEL widen_bf16(float *dst, const __nv_bfloat16 *src, i64 n) { convert(dst, src, n); }
