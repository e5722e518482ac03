#include "half.cuh"

// out[i] = table[rows[i]], a block per row.
KERNEL gather(Half *out, const Half *table, const int *rows, int cols) {
    copy_row(out + (i64)blockIdx.x * cols, table + (i64)rows[blockIdx.x] * cols, cols);
}
