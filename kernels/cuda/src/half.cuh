// Half is the half type of kernels.Device. A .cu file that includes this one itself is compiled twice, with HALF_BF16 for
// bfloat16 and without for float32. Arithmetic is float32: elements are widened when they are read and rounded to the
// nearest, once, when they are written.
#pragma once
#include "common.cuh"

#ifdef HALF_BF16
#include <cuda_bf16.h>
typedef __nv_bfloat16 Half;
#else
typedef float Half;
#endif

// PACK elements are what one 16-byte access moves: memory, not arithmetic, bounds these kernels.
const int PACK = 16 / sizeof(Half);

struct Pack {
    float v[PACK];
};

#define each(k) _Pragma("unroll") for (int k = 0; k < PACK; k++)

// for_packs runs over n elements in packs, i at the first of each, with all threads of the grid.
#define for_packs(i, n)                                                      \
    for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * PACK; i < (n); \
         i += (i64)gridDim.x * blockDim.x * PACK)

// for_row runs over the columns of a row in packs with all threads of the block.
#define for_row(j, cols) for (int j = threadIdx.x * PACK; j < (cols); j += blockDim.x * PACK)

__device__ inline bool aligned(const void *p) { return ((size_t)p & 15) == 0; }

// take reads a pack of elements E, of which n are there, the others being 0. With `whole`, p is aligned.
template <class E> __device__ inline Pack take(const E *p, i64 n, bool whole) {
    Pack x;
    if (whole && n >= PACK) {
        const int words = PACK * sizeof(E) / 16;
        uint4 raw[words];
#pragma unroll
        for (int w = 0; w < words; w++) raw[w] = ((const uint4 *)p)[w];
        each(k) x.v[k] = float(((const E *)raw)[k]);
    } else {
        each(k) x.v[k] = k < n ? float(p[k]) : 0.0f;
    }
    return x;
}

// put writes the first n elements of a pack.
__device__ inline void put(Half *p, const Pack &x, i64 n, bool whole) {
    if (whole && n >= PACK) {
        uint4 raw;
        each(k) ((Half *)&raw)[k] = Half(x.v[k]);
        *(uint4 *)p = raw;
    } else {
        each(k) if (k < n) p[k] = Half(x.v[k]);
    }
}

// copy_row copies a row as it is, with all threads of the block.
__device__ inline void copy_row(Half *d, const Half *s, int cols) {
    if (aligned(d) && aligned(s) && cols % PACK == 0) {
        for_row(j, cols) *(uint4 *)(d + j) = *(const uint4 *)(s + j);
    } else {
        for (int j = threadIdx.x; j < cols; j += blockDim.x) d[j] = s[j];
    }
}
