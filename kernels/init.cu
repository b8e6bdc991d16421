// Initial weights of rule 7: element by element from a stream of the tensor's own.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/state.rs.
#include "contract.cuh"

KERNEL initial_weights(float* w, u64 n, u32 key0, u32 key1, float scale) {
    const u32 key[2] = {key0, key1};
    for (u64 i = first_item(); i < n; i += item_stride()) w[i] = initial_weight(key, (u32)i, scale);
}
