#include "half.cuh"

KERNEL add(Half *dst, const Half *src, i64 n) {
    bool whole = aligned(dst) && aligned(src);
    for_packs(i, n) {
        Pack d = take(dst + i, n - i, whole), s = take(src + i, n - i, whole);
        each(k) d.v[k] += s.v[k];
        put(dst + i, d, n - i, whole);
    }
}
