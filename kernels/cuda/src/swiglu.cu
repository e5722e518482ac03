#include "half.cuh"

// out may be gate.
KERNEL swiglu(Half *out, const Half *gate, const Half *up, i64 n) {
    bool whole = aligned(out) && aligned(gate) && aligned(up);
    for_packs(i, n) {
        Pack g = take(gate + i, n - i, whole), u = take(up + i, n - i, whole);
        each(k) g.v[k] = g.v[k] / (1.0f + expf(-g.v[k])) * u.v[k];
        put(out + i, g, n - i, whole);
    }
}

KERNEL swiglu_backward(Half *dgate, Half *dup, const Half *dout, const Half *gate, const Half *up, i64 n) {
    bool whole = aligned(dgate) && aligned(dup) && aligned(dout) && aligned(gate) && aligned(up);
    for_packs(i, n) {
        Pack g = take(gate + i, n - i, whole), u = take(up + i, n - i, whole), d = take(dout + i, n - i, whole);
        each(k) {
            float x = g.v[k], s = 1.0f / (1.0f + expf(-x));
            g.v[k] = d.v[k] * u.v[k] * s * (1.0f + x * (1.0f - s));
            u.v[k] = d.v[k] * x * s;
        }
        put(dgate + i, g, n - i, whole);
        put(dup + i, u, n - i, whole);
    }
}
