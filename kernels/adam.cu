// Rule 6: clip factor, Adam, and the target network, one element a thread over the flat parameters.
//
// Guarantee: cpu_to_gpu. Reference: `adam` of src/engine/cpu/rules.rs. Padding between tensors stays +0.
#include "learner.cuh"
#include "state.cuh"

enum TargetRule { POLYAK, PERIODIC, KEEP };

struct Adam {
    float* w;
    float* target;
    float* m;
    float* v;
    const float* g;
    u64 n;
    AdamRule rule;
    const float* rates;  // a_t and b_t by turns, of update first_update + 1 on
    u64 first_update;
    const float* clip;  // k
    u32 target_rule;
    float tau;
    u64 period;
    const Counters* counters;
};

KERNEL adam_polyak(const Adam a) {
    if (a.counters->stop != 0) return;
    const u64 done = a.counters->updates;
    const float at = a.rates[2 * (done - a.first_update)], bt = a.rates[2 * (done - a.first_update) + 1];
    const float k = *a.clip;
    const bool copies = a.target_rule == PERIODIC && (done + 1) % a.period == 0;
    for (u64 i = first_item(); i < a.n; i += item_stride()) {
        float w = a.w[i], m = a.m[i], v = a.v[i];
        adam(a.rule, at, bt, k, w, m, v, a.g[i]);
        a.w[i] = w;
        a.m[i] = m;
        a.v[i] = v;
        if (a.target_rule == POLYAK) a.target[i] = polyak(a.tau, a.target[i], w);
        if (copies) a.target[i] = w;
    }
}
