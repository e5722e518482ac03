#include "half.cuh"

#ifdef HALF_BF16
typedef unsigned short Bits;
#else
typedef unsigned Bits;
#endif

// out: [0] checksum as kernels.CheckSum states it, [1] largest bits of |x| as a float32, [2] 1 if a row differs from the first.
// All three start at 0; integer sums do not depend on their order. A block takes rows blockIdx.x, blockIdx.x + gridDim.x, ….
KERNEL check_features(u64 *out, const Half *x, int rows, int cols) {
    u64 sum = 0;
    unsigned top = 0, differs = 0;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        const Half *row = x + (i64)r * cols;
        bool whole = aligned(row) && aligned(x);
        u64 key = (u64)r * cols + 1;
        for_row(j, cols) {
            uint4 raw, first;
            Bits *b = (Bits *)&raw, *f = (Bits *)&first;
            int n = cols - j < PACK ? cols - j : PACK;
            if (whole && n == PACK) {
                raw = *(const uint4 *)(row + j);
                first = *(const uint4 *)(x + j);
            } else {
                each(k) if (k < n) b[k] = ((const Bits *)row)[j + k], f[k] = ((const Bits *)x)[j + k];
            }
            each(k) if (k < n) {
                u64 t = (b[k] ^ (key + j + k) * 0x9E3779B97F4A7C15ull) * 0x100000001B3ull;
                sum += t ^ t >> 32;
                unsigned wide = (unsigned)b[k] << (32 - 8 * sizeof(Bits)), one = (unsigned)f[k] << (32 - 8 * sizeof(Bits));
                top = max(top, wide & 0x7fffffffu);
                differs |= __uint_as_float(wide) != __uint_as_float(one);
            }
        }
    }
    sum = warp_sum(sum);
    for (int o = 16; o > 0; o >>= 1) {
        top = max(top, __shfl_xor_sync(FULL_WARP, top, o));
        differs |= __shfl_xor_sync(FULL_WARP, differs, o);
    }
    if (lane_id() == 0) {
        atomicAdd(&out[0], sum);
        atomicMax(&out[1], (u64)top);
        atomicMax(&out[2], (u64)differs);
    }
}
