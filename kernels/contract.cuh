// Arithmetic shared by all kernels, as docs/contract.md fixes it: one rounding an operation, fused only by name.
//
// Kernels that may fuse (rule 2's chains, rule 4's squares) say `#define CONTRACT_FUSES` before including this file;
// elsewhere `fused` does not exist. NVRTC gets --fmad=false --ftz=false --prec-div=true --prec-sqrt=true.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void

constexpr u32 BRANCHES = 3;
constexpr u32 ACTIONS = 5;
constexpr u32 Q_VALUES = BRANCHES * ACTIONS;
constexpr u32 HEAD_OUTPUTS = 1 + Q_VALUES;
constexpr u32 MARKET_COLUMNS = 60;
constexpr u32 STATE_COLUMNS = 4;
constexpr u32 OBSERVATION = MARKET_COLUMNS + STATE_COLUMNS;

DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float sub(float a, float b) { return __fsub_rn(a, b); }
DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
DEVICE float div(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float root(float a) { return __fsqrt_rn(a); }
#ifdef CONTRACT_FUSES
DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#endif

DEVICE bool is_nan(float x) { return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u; }
DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
DEVICE float magnitude(float x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
DEVICE float negative(float x) { return __uint_as_float(__float_as_uint(x) ^ 0x80000000u); }

// Rule 2's ReLU and its gradient.
DEVICE float relu(float z) { return z > 0.0f || is_nan(z) ? z : 0.0f; }
DEVICE float relu_backward(float y, float dy) { return y > 0.0f ? dy : 0.0f; }

// Head of an output column, and the first column of a head: value, then three branches of five.
DEVICE u32 head_of(u32 column) { return column == 0 ? 0 : 1 + (column - 1) / ACTIONS; }

// Rule 7: Philox4x32-10.
struct Words {
    u32 w[4];
};

DEVICE Words philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u32 h0 = __umulhi(c0, 0xD2511F53u), l0 = c0 * 0xD2511F53u;
        const u32 h1 = __umulhi(c2, 0xCD9E8D57u), l1 = c2 * 0xCD9E8D57u;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

DEVICE Words block_of(const u32* key, u32 element, u32 draw, u64 step) {
    return philox(element, draw, (u32)step, (u32)(step >> 32), key[0], key[1]);
}

DEVICE float uniform(u32 word) { return mul((float)(word >> 8), 1.0f / 16777216.0f); }
DEVICE u64 index_below(u64 n, u32 low, u32 high) { return __umul64hi((u64)high << 32 | low, n); }
DEVICE u8 action_of(u32 word) { return (u8)(((u64)word * ACTIONS) >> 32); }

DEVICE u64 explore_threshold(u64 start, u64 end, u64 t, u64 steps) {
    return start - ((start - end) * (t < steps ? t : steps)) / steps;
}

DEVICE float initial_weight(const u32* key, u32 element, float scale) {
    const u32 word = block_of(key, element, 0, 0).w[0];
    return mul(mul((float)((i32)(word >> 8) - (1 << 23)), 1.0f / 8388608.0f), scale);
}

// fp/1: the splitmix64 finaliser and the word constants.
constexpr u64 GOLDEN = 0x9E3779B97F4A7C15ull;

DEVICE u64 mix64(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

DEVICE u32 fingerprint_key(u32 lane, u32 i) { return (u32)mix64(((u64)lane * 256 + i + 1) * GOLDEN); }

// Rule 5.
DEVICE u32 argmax(const float* q) {
    u32 best = 0;
#pragma unroll
    for (u32 j = 1; j < ACTIONS; ++j) {
        if (q[j] > q[best]) best = j;
    }
    return best;
}

DEVICE void dueling(float v, const float* a, float* q) {
    const float mean = div(add(add(add(add(a[0], a[1]), a[2]), a[3]), a[4]), 5.0f);
#pragma unroll
    for (u32 j = 0; j < ACTIONS; ++j) q[j] = add(v, sub(a[j], mean));
}

// Of entries that own units of work one after the other, the one that owns `unit`: the last whose first is not beyond it.
template <typename ENTRY>
DEVICE u32 owner_of(const ENTRY* entries, u32 count, u64 unit) {
    u32 low = 0, high = count;
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (entries[middle].first <= unit) low = middle; else high = middle;
    }
    return low;
}

// Flat thread number and stride of a one-dimensional launch.
DEVICE u64 first_item() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u64 item_stride() { return (u64)gridDim.x * blockDim.x; }
