// Rule 5 after the forward passes: targets, Huber loss, and the gradients entering the heads' outputs. One thread a row.
//
// Guarantee: cpu_to_gpu. Reference: `loss` of src/engine/cpu/passes.rs.
#include "learner.cuh"

struct Loss {
    const float* q;          // [B, 15]: online network at s
    const float* q_online;   // [B, 15]: online network at s'
    const float* q_target;   // [B, 15]: target network at s'
    const float* returns;    // [B]
    const u8* done;          // [B]
    const u8* actions;       // [B, 3]
    const float* weights;    // [B]
    float* y;                // [B]
    float* delta;            // [B, 3]
    float* loss_terms;       // [B, 3]
    float* g;                // [B, 3]
    float* dz_outputs;       // [B, 16]
    float gamma_n, scale;
    u32 rows;
    const u32* stop;
};

KERNEL td_loss(const Loss l) {
    if (*l.stop != 0) return;
    for (u64 i = first_item(); i < l.rows; i += item_stride()) {
        const u64 q = Q_VALUES * i, b = BRANCHES * i;
        const float y = td_target(l.returns[i], l.done[i] != 0, l.gamma_n, l.q_online + q, l.q_target + q);
        l.y[i] = y;
        float g[BRANCHES];
#pragma unroll
        for (u32 j = 0; j < BRANCHES; ++j) {
            const Huber h = huber(l.q[q + ACTIONS * j + l.actions[b + j]], y, l.weights[i], l.scale);
            l.delta[b + j] = h.delta;
            l.loss_terms[b + j] = mul(h.loss, l.weights[i]);
            l.g[b + j] = h.g;
            g[j] = h.g;
        }
        heads_gradient(g, l.actions + b, l.dz_outputs + HEAD_OUTPUTS * i);
    }
}
