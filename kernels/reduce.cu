// Rule 4: sums and sums of squares over named tensors, then over the tensors' results; the norm and the clip factor.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/cpu/sum.rs. A warp is the 32 lanes of one block of 1,024 elements.
#define CONTRACT_FUSES
#include "contract.cuh"

constexpr u32 BLOCK = 1024, LANES = 32;

// A tensor: elements `offset ..` of the base, its first block among those of all tensors.
struct Segment {
    u64 offset;
    u64 length;
    u64 first;
};

DEVICE float fold_lanes(float s) {
#pragma unroll
    for (int h = LANES / 2; h > 0; h /= 2) s = add(s, __shfl_down_sync(0xffffffffu, s, h));
    return s;
}

// One block's result, in lane 0.
DEVICE float block_sum(const float* x, u64 n, bool squares) {
    const u32 lane = threadIdx.x % LANES;
    float s = 0.0f;
    for (u32 i = lane; i < n; i += LANES) s = squares ? fused(x[i], x[i], s) : add(s, x[i]);
    return fold_lanes(s);
}

DEVICE u64 block_length(u64 n, u64 block) { return n - block * BLOCK < BLOCK ? n - block * BLOCK : BLOCK; }

// First level: a warp a block. Segments are not empty.
KERNEL reduce_blocks(const float* base, const Segment* segments, u32 count, u64 blocks, u32 squares, float* partial,
                     const u32* stop) {
    if (*stop != 0) return;
    const u64 warps = item_stride() / LANES;
    for (u64 block = first_item() / LANES; block < blocks; block += warps) {
        const Segment s = segments[owner_of(segments, count, block)];
        const u64 own = block - s.first;
        const float sum = block_sum(base + s.offset + own * BLOCK, block_length(s.length, own), squares != 0);
        if (threadIdx.x % LANES == 0) partial[block] = sum;
    }
}

// Reduces n values in place until one is left; all threads of the block take part.
DEVICE float reduce_all(float* x, u64 n) {
    const u32 warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    while (n > 1) {
        const u64 blocks = (n + BLOCK - 1) / BLOCK;
        // A result lies at or before its own block, and results of one round are written after all of it is read.
        for (u64 first = 0; first < blocks; first += warps) {
            const u64 block = first + warp;
            float sum = 0.0f;
            if (block < blocks) sum = block_sum(x + block * BLOCK, block_length(n, block), false);
            __syncthreads();
            if (block < blocks && threadIdx.x % LANES == 0) x[block] = sum;
            __syncthreads();
        }
        n = blocks;
    }
    return x[0];
}

struct Total {
    float sum;     // over the tensors' results
    float norm;    // its square root
    float k;       // clip factor under the limit
    float scaled;  // the sum times the scale
};

// Second level: a block a tensor; the last block done goes over the results. `arrived` is 0 before and after.
KERNEL reduce_segments(float* partial, const Segment* segments, u32 count, float* results, float* scratch, u32* arrived,
                       float limit, float scale, Total* total, const u32* stop) {
    __shared__ bool last;
    if (*stop != 0) return;
    const Segment s = segments[blockIdx.x];
    const u64 n = (s.length + BLOCK - 1) / BLOCK;
    const float result = reduce_all(partial + s.first, n);
    if (threadIdx.x == 0) {
        results[blockIdx.x] = result;
        __threadfence();
        last = atomicAdd(arrived, 1) == count - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) scratch[i] = ((volatile float*)results)[i];
    __syncthreads();
    const float sum = reduce_all(scratch, count);
    if (threadIdx.x == 0) {
        const float norm = root(sum);
        total->sum = sum;
        total->norm = norm;
        total->k = norm > limit ? div(limit, norm) : 1.0f;
        total->scaled = mul(sum, scale);
        *arrived = 0;
    }
}
