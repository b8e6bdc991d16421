// Rules 5 and 6 for one row or one element.
#pragma once
#include "contract.cuh"

struct Huber {
    float delta, e, loss, g;
};

DEVICE float td_target(float r, bool done, float gamma_n, const float* online, const float* target) {
    if (done) return r;
    const float t0 = target[argmax(online)];
    const float t1 = target[ACTIONS + argmax(online + ACTIONS)];
    const float t2 = target[2 * ACTIONS + argmax(online + 2 * ACTIONS)];
    return add(r, mul(gamma_n, div(add(add(t0, t1), t2), 3.0f)));
}

DEVICE Huber huber(float q, float y, float w, float c) {
    Huber h;
    h.delta = sub(q, y);
    h.e = h.delta > 1.0f ? 1.0f : (h.delta < -1.0f ? -1.0f : h.delta);
    const float size = magnitude(h.delta);
    h.loss = size <= 1.0f ? mul(0.5f, mul(h.delta, h.delta)) : sub(size, 0.5f);
    h.g = mul(mul(h.e, w), c);
    return h;
}

// dv, then da of the three branches.
DEVICE void heads_gradient(const float* g, const u8* actions, float* out) {
    out[0] = add(add(g[0], g[1]), g[2]);
#pragma unroll
    for (u32 b = 0; b < BRANCHES; ++b) {
        const float u = div(g[b], 5.0f);
#pragma unroll
        for (u32 j = 0; j < ACTIONS; ++j) out[1 + ACTIONS * b + j] = sub(j == actions[b] ? g[b] : 0.0f, u);
    }
}

// Constants of rule 6 that do not depend on t.
struct AdamRule {
    float beta1, beta2, c1, c2, epsilon;
};

// 2^-100: moments below it become +0.
#define TINY __uint_as_float((127u - 100u) << 23)

DEVICE void adam(const AdamRule& r, float a, float b, float k, float& w, float& m, float& v, float g) {
    g = mul(g, k);
    const float new_m = add(mul(r.beta1, m), mul(r.c1, g));
    const float new_v = add(mul(r.beta2, v), mul(r.c2, mul(g, g)));
    m = magnitude(new_m) < TINY ? 0.0f : new_m;
    v = new_v < TINY ? 0.0f : new_v;
    w = sub(w, div(mul(a, m), add(mul(root(v), b), r.epsilon)));
}

DEVICE float polyak(float tau, float target, float w) { return add(target, mul(tau, sub(w, target))); }
