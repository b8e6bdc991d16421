// The contract's scalar rules one by one over arrays: what the other kernels are built from, held against the vectors.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/cpu/rules.rs, src/bits/philox.rs, src/digest/fingerprint.rs.
#define CONTRACT_FUSES
#include "contract.cuh"
#include "learner.cuh"
#include "trading.cuh"
#include "priority.cuh"

enum Operation { ADD, SUB, MUL, DIV, SQRT, FMA };

KERNEL elementwise(u32 operation, const float* a, const float* b, const float* c, float* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) {
        switch (operation) {
            case ADD: out[i] = add(a[i], b[i]); break;
            case SUB: out[i] = sub(a[i], b[i]); break;
            case MUL: out[i] = mul(a[i], b[i]); break;
            case DIV: out[i] = div(a[i], b[i]); break;
            case SQRT: out[i] = root(a[i]); break;
            default: out[i] = fused(a[i], b[i], c[i]); break;
        }
    }
}

KERNEL relu_rows(const float* z, float* y, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) y[i] = relu(z[i]);
}

KERNEL relu_backward_rows(const float* y, const float* dy, float* dz, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) dz[i] = relu_backward(y[i], dy[i]);
}

// Rows of one value and five advantages.
KERNEL dueling_rows(const float* v, const float* a, float* q, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) dueling(v[i], a + ACTIONS * i, q + ACTIONS * i);
}

KERNEL argmax_rows(const float* q, u32* index, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) index[i] = argmax(q + ACTIONS * i);
}

KERNEL td_target_rows(const float* r, const u8* done, float gamma_n, const float* online, const float* target, u32* picks,
                      float* y, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const float* q = online + Q_VALUES * i;
        for (u32 b = 0; b < BRANCHES; ++b) picks[BRANCHES * i + b] = argmax(q + ACTIONS * b);
        y[i] = td_target(r[i], done[i] != 0, gamma_n, q, target + Q_VALUES * i);
    }
}

KERNEL huber_rows(const float* q, const float* y, const float* w, float c, float* delta, float* e, float* loss, float* g,
                  u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const Huber h = huber(q[i], y[i], w[i], c);
        delta[i] = h.delta;
        e[i] = h.e;
        loss[i] = h.loss;
        g[i] = h.g;
    }
}

KERNEL heads_gradient_rows(const float* g, const u8* actions, float* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) {
        heads_gradient(g + BRANCHES * i, actions + BRANCHES * i, out + HEAD_OUTPUTS * i);
    }
}

// Blocks of four counter words under one key.
KERNEL philox_rows(const u32* counters, const u32* key, u32* words, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const u32* c = counters + 4 * i;
        const Words block = philox(c[0], c[1], c[2], c[3], key[0], key[1]);
        for (u32 j = 0; j < 4; ++j) words[4 * i + j] = block.w[j];
    }
}

KERNEL uniform_rows(const u32* words, float* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) out[i] = uniform(words[i]);
}

KERNEL index_below_rows(u64 below, const u32* words, u64* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) out[i] = index_below(below, words[2 * i], words[2 * i + 1]);
}

KERNEL explore_threshold_rows(u64 start, u64 end, u64 steps, const u64* t, u64* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) out[i] = explore_threshold(start, end, t[i], steps);
}

KERNEL explore_rows(const u32* key, u64 at, u64 threshold, u8* explores, u8* actions, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const Words block = block_of(key, (u32)i, 0, at);
        explores[i] = block.w[0] < threshold;
        for (u32 b = 0; b < BRANCHES; ++b) actions[BRANCHES * i + b] = action_of(block.w[1 + b]);
    }
}

KERNEL mix64_rows(const u64* z, u64* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) out[i] = mix64(z[i]);
}

KERNEL fingerprint_keys(u32 lane, u32* out) {
    for (u64 i = first_item(); i < 256; i += item_stride()) out[i] = fingerprint_key(lane, (u32)i);
}

KERNEL priority_rows(const float* deltas, float epsilon, u32 alpha, u32* out, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) out[i] = priority_of(deltas + BRANCHES * i, epsilon, alpha);
}

KERNEL target_network_rows(float tau, float* target, const float* w, u64 n) {
    for (u64 i = first_item(); i < n; i += item_stride()) target[i] = polyak(tau, target[i], w[i]);
}
