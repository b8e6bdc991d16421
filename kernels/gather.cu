// A batch from the ring's index rows: n-step returns (rule 5), and observations rebuilt from the market table (rule 8).
//
// Guarantee: cpu_to_gpu. Reference: `n_step_return` of src/engine/replay.rs, `observe` of src/engine/evaluator.rs. A warp a
// batch position.
#include "ring.cuh"
#include "state.cuh"

constexpr u32 LANES = 32;

struct Gather {
    Ring ring;
    const float* market;  // [bars, 60]
    const u32* rows;      // [B]
    float* obs;           // [B, 64]
    float* next_obs;      // [B, 64]
    u8* actions;          // [B, 3]
    float* returns;       // [B]
    u8* done;             // [B]
    float gamma;
    u32 batch;
    const u32* stop;
};

DEVICE void observe(const float* market, u32 time, const float* state, float* out) {
    for (u32 c = threadIdx.x % LANES; c < OBSERVATION; c += LANES) {
        out[c] = c < MARKET_COLUMNS ? market[(u64)time * MARKET_COLUMNS + c] : state[c - MARKET_COLUMNS];
    }
}

// The return of a row, whether a done cut it, and the last row used.
DEVICE float n_step_return(const Ring& ring, u64 row, float gamma, bool& cut, u64& last) {
    u32 n = 0;
    while (n + 1 < ring.n_step && ring.done[row_after(ring, row, n)] == 0) ++n;
    last = row_after(ring, row, n);
    cut = ring.done[last] != 0;
    float r = ring.reward[last];
    for (u32 k = n; k-- > 0;) r = add(ring.reward[row_after(ring, row, k)], mul(gamma, r));
    return r;
}

KERNEL gather_batch(const Gather g) {
    if (*g.stop != 0) return;
    const u64 warps = item_stride() / LANES;
    for (u64 i = first_item() / LANES; i < g.batch; i += warps) {
        const u64 row = g.rows[i];
        bool cut;
        u64 last;
        const float r = n_step_return(g.ring, row, g.gamma, cut, last);
        observe(g.market, g.ring.time[row], (const float*)(g.ring.before + row), g.obs + OBSERVATION * i);
        observe(g.market, g.ring.time[last] + 1, (const float*)(g.ring.after + last), g.next_obs + OBSERVATION * i);
        if (threadIdx.x % LANES == 0) {
            for (u32 b = 0; b < BRANCHES; ++b) g.actions[BRANCHES * i + b] = g.ring.actions[BRANCHES * row + b];
            g.returns[i] = r;
            g.done[i] = cut;
        }
    }
}

// Returns of rows that a caller names, for the vectors.
KERNEL return_rows(const Ring ring, const u32* rows, float gamma, float* returns, u8* done, u64 count) {
    for (u64 i = first_item(); i < count; i += item_stride()) {
        bool cut;
        u64 last;
        returns[i] = n_step_return(ring, rows[i], gamma, cut, last);
        done[i] = cut;
    }
}
