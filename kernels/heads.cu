// Second layers of the four heads and the dueling sum, forward; their weight gradients, and the gradient entering the
// hidden layers, backward.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/cpu/passes.rs, weights.rs. Each output is one chain of one thread: over H/2
// inputs (forward), the batch (weights), or the head's 1 or 5 outputs (backward).
#define CONTRACT_FUSES
#include "contract.cuh"

constexpr u32 ROWS = 8, DEPTH = 64, HEADS = 4;

struct HeadsForward {
    const float* hidden;  // [rows, 2H]
    const float* weight;  // [16, H/2]
    const float* bias;    // [16]
    float* outputs;       // [rows, 16]
    float* q;             // [rows, 15]
    u32 rows, half;
    const u32* stop;
};

KERNEL __launch_bounds__(ROWS * HEAD_OUTPUTS) heads_forward(const HeadsForward f) {
    __shared__ float hidden[ROWS][HEADS][DEPTH + 1];
    __shared__ float weight[HEAD_OUTPUTS][DEPTH + 1];
    __shared__ float outputs[ROWS][HEAD_OUTPUTS];
    if (*f.stop != 0) return;
    const u32 row = threadIdx.x / HEAD_OUTPUTS, column = threadIdx.x % HEAD_OUTPUTS, head = head_of(column);
    for (u32 row0 = blockIdx.x * ROWS; row0 < f.rows; row0 += gridDim.x * ROWS) {
        float acc = 0.0f;
        for (u32 k0 = 0; k0 < f.half; k0 += DEPTH) {
            const u32 deep = f.half - k0 < DEPTH ? f.half - k0 : DEPTH;
            for (u32 i = threadIdx.x; i < ROWS * HEADS * DEPTH; i += blockDim.x) {
                const u32 k = i % DEPTH, h = i / DEPTH % HEADS, r = i / DEPTH / HEADS;
                if (k < deep && row0 + r < f.rows) {
                    hidden[r][h][k] = f.hidden[(u64)(row0 + r) * HEADS * f.half + h * f.half + k0 + k];
                }
            }
            for (u32 i = threadIdx.x; i < HEAD_OUTPUTS * DEPTH; i += blockDim.x) {
                const u32 k = i % DEPTH, o = i / DEPTH;
                if (k < deep) weight[o][k] = f.weight[(u64)o * f.half + k0 + k];
            }
            __syncthreads();
            if (row0 + row < f.rows) {
                if (deep == DEPTH) {
#pragma unroll 16
                    for (u32 k = 0; k < DEPTH; ++k) acc = fused(hidden[row][head][k], weight[column][k], acc);
                } else {
                    for (u32 k = 0; k < deep; ++k) acc = fused(hidden[row][head][k], weight[column][k], acc);
                }
            }
            __syncthreads();
        }
        if (row0 + row < f.rows) {
            const float z = add(acc, f.bias[column]);
            outputs[row][column] = z;
            f.outputs[(u64)(row0 + row) * HEAD_OUTPUTS + column] = z;
        }
        __syncthreads();
        if (row0 + row < f.rows && column < BRANCHES) {
            float* q = f.q + (u64)(row0 + row) * Q_VALUES + ACTIONS * column;
            dueling(outputs[row][0], outputs[row] + 1 + ACTIONS * column, q);
        }
        __syncthreads();
    }
}

struct HeadsBackward {
    const float* dz_outputs;  // [rows, 16]
    const float* weight;      // [16, H/2]
    const float* hidden;      // [rows, 2H], after the ReLU
    float* dz_hidden;         // [rows, 2H]
    u32 rows, half;
    const u32* stop;
};

KERNEL heads_backward(const HeadsBackward b) {
    if (*b.stop != 0) return;
    const u32 width = HEADS * b.half;
    const u64 n = (u64)b.rows * width;
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const u32 row = (u32)(i / width), column = (u32)(i % width), head = column / b.half, k = column % b.half;
        const u32 first = head == 0 ? 0 : 1 + (head - 1) * ACTIONS, count = head == 0 ? 1 : ACTIONS;
        const float* dz = b.dz_outputs + (u64)row * HEAD_OUTPUTS + first;
        const float* w = b.weight + (u64)first * b.half + k;
        float acc = 0.0f;
        for (u32 o = 0; o < count; ++o) acc = fused(dz[o], w[(u64)o * b.half], acc);
        b.dz_hidden[i] = relu_backward(b.hidden[i], acc);
    }
}

struct HeadsWeight {
    const float* dz_outputs;  // [rows, 16]
    const float* hidden;      // [rows, 2H], after the ReLU
    float* dw;                // [16, H/2]
    u32 rows, half;
    const u32* stop;
};

constexpr u32 WIDE = 8, BATCH = 32;

// dW of the second layers: one chain over the batch an element. A block takes WIDE inputs of every head, a thread one of
// them for one output.
KERNEL __launch_bounds__(WIDE * HEAD_OUTPUTS) heads_weight_gradient(const HeadsWeight g) {
    __shared__ float dz[BATCH][HEAD_OUTPUTS];
    __shared__ float x[BATCH][HEADS][WIDE + 1];
    if (*g.stop != 0) return;
    const u32 column = threadIdx.x / WIDE, k = threadIdx.x % WIDE, head = head_of(column);
    for (u32 k0 = blockIdx.x * WIDE; k0 < g.half; k0 += gridDim.x * WIDE) {
        float acc = 0.0f;
        for (u32 n0 = 0; n0 < g.rows; n0 += BATCH) {
            const u32 here = g.rows - n0 < BATCH ? g.rows - n0 : BATCH;
            for (u32 i = threadIdx.x; i < here * HEAD_OUTPUTS; i += blockDim.x) {
                dz[i / HEAD_OUTPUTS][i % HEAD_OUTPUTS] = g.dz_outputs[(u64)n0 * HEAD_OUTPUTS + i];
            }
            for (u32 i = threadIdx.x; i < here * HEADS * WIDE; i += blockDim.x) {
                const u32 c = i % WIDE, h = i / WIDE % HEADS, n = i / WIDE / HEADS;
                const bool inside = k0 + c < g.half;
                const u64 at = (u64)(n0 + n) * HEADS * g.half + h * g.half + k0 + c;
                x[n][h][c] = inside ? g.hidden[at] : 0.0f;
            }
            __syncthreads();
            if (here == BATCH) {
#pragma unroll
                for (u32 n = 0; n < BATCH; ++n) acc = fused(dz[n][column], x[n][head][k], acc);
            } else {
                for (u32 n = 0; n < here; ++n) acc = fused(dz[n][column], x[n][head][k], acc);
            }
            __syncthreads();
        }
        if (k0 + k < g.half) g.dw[(u64)column * g.half + k0 + k] = acc;
    }
}
