// The evaluator around its forward passes: observations of bars at flat position, and the greedy rollout bar by bar.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/evaluator.rs. Reads the weights, writes nothing that training reads.
#include "trading.cuh"

// [count, 64]: bars `first ..` at flat position.
KERNEL observe_bars(const Bars bars, u32 first, u32 count, float* out) {
    const u64 n = (u64)count * OBSERVATION;
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const u64 bar = i / OBSERVATION;
        const u32 c = (u32)(i % OBSERVATION);
        out[i] = c < MARKET_COLUMNS ? bars.columns[(first + bar) * MARKET_COLUMNS + c] : 0.0f;
    }
}

// Where a rollout stands.
struct Live {
    Account account;
    u32 bar;  // of the window
};

struct Rollout {
    Bars bars;
    Live* live;
    float* row;        // [rows, 64]: the live row, repeated
    const float* q;    // [rows, 15]
    float* q_live;     // [bars, 15]
    float* rewards;    // [bars]
    float* positions;  // [bars]
    float* turnover;   // [bars]
    u32 first, rows;
};

KERNEL start_rollout(const Rollout r) {
    const Live fresh = {};
    *r.live = fresh;
}

KERNEL observe_live(const Rollout r) {
    float state[STATE_COLUMNS];
    state_of(r.live->account, state);
    const u64 t = r.first + r.live->bar;
    for (u64 i = first_item(); i < (u64)r.rows * OBSERVATION; i += item_stride()) {
        const u32 c = (u32)(i % OBSERVATION);
        r.row[i] = c < MARKET_COLUMNS ? r.bars.columns[t * MARKET_COLUMNS + c] : state[c - MARKET_COLUMNS];
    }
}

// One bar by the greedy actions of row `bar mod rows`. One thread.
KERNEL step_live(const Rollout r) {
    Live live = *r.live;
    const u32 bar = live.bar, t = r.first + bar;
    const float* q = r.q + (u64)(t % r.rows) * Q_VALUES;
    u32 act[BRANCHES];
    for (u32 b = 0; b < BRANCHES; ++b) act[b] = argmax(q + ACTIONS * b);
    const Stepped s = trade(live.account, act[0], act[1], act[2], r.bars.cost[t], r.bars.vol[t], r.bars.ret[t + 1]);
    for (u32 j = 0; j < Q_VALUES; ++j) r.q_live[(u64)bar * Q_VALUES + j] = q[j];
    r.rewards[bar] = s.reward;
    r.positions[bar] = live.account.position;
    r.turnover[bar] = s.turnover;
    live.bar += 1;
    *r.live = live;
}
