#include "common.cuh"

// out: [0] checksum as kernels.CheckSum states it, [1] largest bits of |x|, [2] 1 if a row differs from the first.
// All three start at 0; integer sums do not depend on their order.
KERNEL check_features(u64 *out, const float *x, i64 n, int cols) {
    u64 sum = 0;
    unsigned top = 0, differs = 0;
    for_each(i, n) {
        unsigned bits = __float_as_uint(x[i]);
        u64 t = (bits ^ (u64)(i + 1) * 0x9E3779B97F4A7C15ull) * 0x100000001B3ull;
        sum += t ^ t >> 32;
        unsigned size = bits & 0x7fffffffu;
        top = size > top ? size : top;
        differs |= x[i] != x[i % cols];
    }
    sum = warp_sum(sum);
    for (int o = 16; o > 0; o >>= 1) {
        unsigned other = __shfl_xor_sync(FULL_WARP, top, o);
        top = other > top ? other : top;
        differs |= __shfl_xor_sync(FULL_WARP, differs, o);
    }
    if (lane_id() == 0) {
        atomicAdd(&out[0], sum);
        atomicMax(&out[1], (u64)top);
        atomicMax(&out[2], (u64)differs);
    }
}
