// fp/1 of many tensors in one launch: a warp a block of 256 words, sums kept in registers while the tensor stays the same.
//
// Guarantee: cpu_to_gpu: sums mod 2^64 have no order. Reference: src/digest/fingerprint.rs.
#include "contract.cuh"

constexpr u32 WORDS = 256, LANES = 32;

struct Bytes {
    const u8* data;  // on a multiple of 4 bytes
    u64 length;
    u64 first;  // its first block among those of all tensors
};

// Each tensor's value before its blocks: the length's share, in both lanes.
KERNEL fingerprint_start(const Bytes* tensors, u32 count, u64* out) {
    for (u64 i = first_item(); i < count; i += item_stride()) {
        const u64 start = mix64(tensors[i].length + 1);
        out[2 * i] = start;
        out[2 * i + 1] = start;
    }
}

// Word i of a tensor, the last one zero-padded, beyond it zero.
DEVICE u32 word_of(const Bytes& t, u64 i) {
    if (4 * i + 4 <= t.length) return ((const u32*)t.data)[i];
    u32 word = 0;
    for (u64 b = 4 * i; b < t.length; ++b) word |= (u32)t.data[b] << (8 * (b % 4));
    return word;
}

DEVICE u64 sum_lanes(u64 x) {
#pragma unroll
    for (int h = LANES / 2; h > 0; h /= 2) x += __shfl_down_sync(0xffffffffu, x, h);
    return x;
}

DEVICE void flush(u64* out, u32 tensor, u64 sum0, u64 sum1) {
    atomicAdd(out + 2 * tensor, sum0);
    atomicAdd(out + 2 * tensor + 1, sum1);
}

// Tensors are not empty; blocks are those of all tensors, one after the other.
KERNEL __launch_bounds__(256) fingerprint_blocks(const Bytes* tensors, u32 count, u64 blocks, u64* out) {
    __shared__ u32 keys[2][WORDS];
    for (u32 i = threadIdx.x; i < 2 * WORDS; i += blockDim.x) keys[i / WORDS][i % WORDS] = fingerprint_key(i / WORDS, i % WORDS);
    __syncthreads();
    const u32 lane = threadIdx.x % LANES;
    const u64 warps = item_stride() / LANES, warp = first_item() / LANES;
    const u64 each = (blocks + warps - 1) / warps, start = warp * each;
    u32 tensor = ~0u;
    Bytes t = {};
    u64 end_of_tensor = 0, sum0 = 0, sum1 = 0;
    for (u64 block = start; block < start + each && block < blocks; ++block) {
        if (tensor == ~0u || block >= end_of_tensor) {
            if (tensor != ~0u && lane == 0) flush(out, tensor, sum0, sum1);
            tensor = owner_of(tensors, count, block);
            t = tensors[tensor];
            end_of_tensor = t.first + (t.length + 4 * WORDS - 1) / (4 * WORDS);
            sum0 = sum1 = 0;
        }
        const u64 own = block - t.first;
        u64 f0 = 0, f1 = 0;
#pragma unroll
        for (u32 j = 0; j < WORDS / 2 / LANES; ++j) {
            const u32 i = 2 * (lane + j * LANES);
            u32 a, b;
            if (4 * (own + 1) * WORDS <= t.length && ((u64)t.data & 7) == 0) {
                const uint2 pair = *(const uint2*)(t.data + 4 * (own * WORDS + i));
                a = pair.x;
                b = pair.y;
            } else {
                a = word_of(t, own * WORDS + i);
                b = word_of(t, own * WORDS + i + 1);
            }
            f0 += (u64)(a ^ keys[0][i]) * (b ^ keys[0][i + 1]);
            f1 += (u64)(a ^ keys[1][i]) * (b ^ keys[1][i + 1]);
        }
        f0 = sum_lanes(f0);
        f1 = sum_lanes(f1);
        sum0 += mix64(f0 + (own + 1) * GOLDEN);
        sum1 += mix64(f1 + (own + 1) * GOLDEN);
    }
    if (tensor != ~0u && lane == 0) flush(out, tensor, sum0, sum1);
}
