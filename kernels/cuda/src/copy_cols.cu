#include "half.cuh"

// dst[:, at:at+cols] = src, a block per row.
KERNEL copy_cols(Half *dst, const Half *src, int stride, int at, int cols) {
    copy_row(dst + (i64)blockIdx.x * stride + at, src + (i64)blockIdx.x * cols, cols);
}
