// The replay ring's rows in columns, and which of them can be sampled (rule 8).
#pragma once
#include "contract.cuh"

struct Ring {
    u32* asset;
    u32* time;
    float4* before;
    float4* after;
    u8* actions;  // [rows, 3]
    u8* done;
    float* reward;
    u32* priority;
    u32* priority_max;
    u64 slots;  // of one environment
    u32 environments, n_step;
};

DEVICE u64 first_slot(const Ring& r, u64 step) { return step % r.slots * r.environments; }

// First row of a place `k` environment steps after a row's, of the same environment.
DEVICE u64 row_after(const Ring& r, u64 row, u32 k) {
    return (row / r.environments + k) % r.slots * r.environments + row % r.environments;
}

// Environment steps that can be sampled of `steps` done: first, end.
DEVICE u64 first_sampleable(const Ring& r, u64 steps) { return steps > r.slots ? steps - r.slots : 0; }
DEVICE u64 end_sampleable(const Ring& r, u64 steps) { return steps + 1 > r.n_step ? steps + 1 - r.n_step : 0; }

DEVICE u64 sampleable_rows(const Ring& r, u64 steps) {
    return (end_sampleable(r, steps) - first_sampleable(r, steps)) * r.environments;
}

// The i-th row, in slot order, of those that can be sampled: steps that wrapped around come first.
DEVICE u64 nth_sampleable(const Ring& r, u64 steps, u64 i) {
    const u64 start = first_sampleable(r, steps), end = end_sampleable(r, steps), n = r.environments;
    const u64 turn = (start + r.slots - 1) / r.slots * r.slots;
    const u64 wrapped = end > turn && start % r.slots != 0 ? (end - turn) * n : 0;
    return i < wrapped ? i : start % r.slots * n + (i - wrapped);
}
