// Rule 11: the smallest (tensor, element) that is not finite, and the word that stops the run.
//
// Guarantee: cpu_to_gpu: a minimum does not depend on the order of its candidates. Reference: `first_not_finite` of
// src/engine/cpu/mod.rs. `found` is NOTHING_FOUND before the first.
#include "state.cuh"

constexpr u64 CHUNK = 4096;

// A tensor, its number in the rule's order, and its first chunk among those of all tensors.
struct Floats {
    const float* data;
    u64 length;
    u64 order;
    u64 first;
};

// A block a chunk of one tensor at a time.
KERNEL find_not_finite(const Floats* tensors, u32 count, u64 chunks, Counters* counters) {
    if (counters->stop != 0) return;
    for (u64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        const Floats t = tensors[owner_of(tensors, count, chunk)];
        const u64 start = (chunk - t.first) * CHUNK;
        const u64 end = t.length - start < CHUNK ? t.length : start + CHUNK;
        for (u64 i = start + threadIdx.x; i < end; i += blockDim.x) {
            if (!is_finite(t.data[i])) atomicMin(&counters->found, t.order << ELEMENT_BITS | i);
        }
    }
}

KERNEL stop_if_found(Counters* counters) {
    if (counters->found != NOTHING_FOUND) counters->stop = 1;
}
