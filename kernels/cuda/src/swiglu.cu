#include "common.cuh"

// out may be gate.
KERNEL swiglu(float *out, const float *gate, const float *up, i64 n) {
    for_each(i, n) {
        float g = gate[i];
        out[i] = g / (1.0f + expf(-g)) * up[i];
    }
}

KERNEL swiglu_backward(float *dgate, float *dup, const float *dout, const float *gate, const float *up, i64 n) {
    for_each(i, n) {
        float g = gate[i], d = dout[i], u = up[i];
        float s = 1.0f / (1.0f + expf(-g));
        dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
        dup[i] = d * g * s;
    }
}
