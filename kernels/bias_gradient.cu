// Rule 3: bias gradients in chunks of 256 batch rows, each summed ascending, then the chunk sums ascending.
//
// Guarantee: cpu_to_gpu. Reference: `bias_gradient` of src/engine/cpu/rules.rs. A block takes 32 columns and up to CHUNKS
// chunks at a time; one thread adds one column of one chunk.
#include "contract.cuh"

constexpr u32 COLUMNS = 32, CHUNKS = 16, ROWS = 256;

// One layer's dz, its columns' first block among all layers', and where the sums go.
struct BiasLayer {
    const float* dz;
    float* db;
    u64 stride;
    u32 width;
    u32 first_block;
};

constexpr u32 LAYERS = 5;

struct BiasGradient {
    BiasLayer layer[LAYERS];
    u32 layers, blocks, rows;
    const u32* stop;
};

KERNEL __launch_bounds__(COLUMNS * CHUNKS) bias_gradient(const BiasGradient g) {
    __shared__ float sums[CHUNKS][COLUMNS];
    if (*g.stop != 0) return;
    const u32 lane = threadIdx.x % COLUMNS, slot = threadIdx.x / COLUMNS;
    const u32 chunks = (g.rows + ROWS - 1) / ROWS;
    for (u32 block = blockIdx.x; block < g.blocks; block += gridDim.x) {
        u32 l = 0;
        while (l + 1 < g.layers && g.layer[l + 1].first_block <= block) ++l;
        const BiasLayer layer = g.layer[l];
        const u32 column = (block - layer.first_block) * COLUMNS + lane;
        float total = 0.0f;
        for (u32 first = 0; first < chunks; first += CHUNKS) {
            const u32 chunk = first + slot, row0 = chunk * ROWS;
            float s = 0.0f;
            if (chunk < chunks && column < layer.width) {
                const u32 end = g.rows - row0 < ROWS ? g.rows : row0 + ROWS;
                const float* x = layer.dz + (u64)row0 * layer.stride + column;
#pragma unroll 8
                for (u32 n = row0; n < end; ++n, x += layer.stride) s = add(s, *x);
            }
            sums[slot][lane] = s;
            __syncthreads();
            const u32 here = chunks - first < CHUNKS ? chunks - first : CHUNKS;
            if (slot == 0) {
                for (u32 c = 0; c < here; ++c) total = add(total, sums[c][lane]);
            }
            __syncthreads();
        }
        if (slot == 0 && column < layer.width) layer.db[column] = total;
    }
}
