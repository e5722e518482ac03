#include "half.cuh"

KERNEL scale(Half *t, float s, i64 n) {
    bool whole = aligned(t);
    for_packs(i, n) {
        Pack v = take(t + i, n - i, whole);
        each(k) v.v[k] *= s;
        put(t + i, v, n - i, whole);
    }
}
