#include "half.cuh"

// out[rows[i]] = x[i], a block per row.
KERNEL scatter(Half *out, const Half *x, const int *rows, int cols) {
    copy_row(out + (i64)rows[blockIdx.x] * cols, x + (i64)blockIdx.x * cols, cols);
}
