#include "common.cuh"
#include <cuda_bf16.h>

// keep, step and root are the factors of Adam.Factors. half, which may be null, receives w.
KERNEL adamw(float *w, __nv_bfloat16 *half, float *m, float *v, const float *g, i64 n, float grad_scale, float beta1, float beta2,
             float eps, float keep, float step, float root) {
    for_each(i, n) {
        float gi = g[i] * grad_scale;
        float mi = m[i] + (gi - m[i]) * (1.0f - beta1);
        float vi = beta2 * v[i] + (1.0f - beta2) * gi * gi;
        float wi = w[i] * keep - step * (mi / (sqrtf(vi) * root + eps));
        m[i] = mi;
        v[i] = vi;
        w[i] = wi;
        if (half) half[i] = __nv_bfloat16(wi);
    }
}
