#include "common.cuh"

// keep, step and root are the factors of Adam.Factors.
KERNEL adamw(float *w, float *m, float *v, const float *g, i64 n, float grad_scale, float beta1, float beta2, float eps,
             float keep, float step, float root) {
    for_each(i, n) {
        float gi = g[i] * grad_scale;
        float mi = m[i] + (gi - m[i]) * (1.0f - beta1);
        float vi = beta2 * v[i] + (1.0f - beta2) * gi * gi;
        m[i] = mi;
        v[i] = vi;
        w[i] = w[i] * keep - step * (mi / (sqrtf(vi) * root + eps));
    }
}
