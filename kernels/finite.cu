// Rule 11: the smallest (tensor, element) that is not finite, and the word that stops the run.
//
// Guarantee: cpu_to_gpu: a minimum does not depend on the order of its candidates. Reference: `first_not_finite` of
// src/engine/cpu/mod.rs. Tensors are given in the rule's order; `found` is NOTHING_FOUND before the first.
#include "state.cuh"

KERNEL find_not_finite(const float* x, u64 n, u64 tensor, Counters* counters) {
    if (counters->stop != 0) return;
    u64 first = NOTHING_FOUND;
    for (u64 i = first_item(); i < n && first == NOTHING_FOUND; i += item_stride()) {
        if (!is_finite(x[i])) first = i;
    }
    if (first != NOTHING_FOUND) atomicMin(&counters->found, tensor << ELEMENT_BITS | first);
}

KERNEL stop_if_found(Counters* counters) {
    if (counters->found != NOTHING_FOUND) counters->stop = 1;
}
