// The collector around its forward pass: observations before it; exploration, actions, rule 10's step, new episodes and
// replay rows after it. One thread an environment, but for the observations.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/environment.rs and `step_all` of src/engine/trainer.rs.
#include "ring.cuh"
#include "state.cuh"
#include "trading.cuh"

struct Accounts {
    u32* time;
    float* position;
    float* open;
    u32* bars;
    float* equity;
    float* peak;
    u32* episode_bars;
    u32 count;
};

DEVICE Account account_of(const Accounts& a, u64 e) { return {a.position[e], a.open[e], a.bars[e], a.equity[e], a.peak[e]}; }

DEVICE void store_account(const Accounts& a, u64 e, const Account& x) {
    a.position[e] = x.position;
    a.open[e] = x.open;
    a.bars[e] = x.bars;
    a.equity[e] = x.equity;
    a.peak[e] = x.peak;
}

// [environments, 64]: market columns at each account's bar, then its state.
KERNEL observe_accounts(const Accounts a, const Bars bars, float* out, const u32* stop) {
    if (*stop != 0) return;
    const u64 n = (u64)a.count * OBSERVATION;
    for (u64 i = first_item(); i < n; i += item_stride()) {
        const u64 e = i / OBSERVATION;
        const u32 c = (u32)(i % OBSERVATION);
        if (c < MARKET_COLUMNS) {
            out[i] = bars.columns[(u64)a.time[e] * MARKET_COLUMNS + c];
        } else {
            float state[STATE_COLUMNS];
            state_of(account_of(a, e), state);
            out[i] = state[c - MARKET_COLUMNS];
        }
    }
}

struct Collect {
    Accounts accounts;
    Bars bars;
    Ring ring;
    const float* q;      // [environments, 15]
    u8* explores;        // [environments]
    u8* actions;         // [environments, 3]
    float* rewards;      // [environments]
    u32 explore_key[2], reset_key[2];
    u64 epsilon_start, epsilon_end, epsilon_steps;
    u32 window_start, window_end, episode_bars;
    const Counters* counters;
};

KERNEL collect_step(const Collect c) {
    if (c.counters->stop != 0) return;
    const u64 step = c.counters->env_steps;
    const u64 threshold = explore_threshold(c.epsilon_start, c.epsilon_end, step, c.epsilon_steps);
    for (u64 e = first_item(); e < c.accounts.count; e += item_stride()) {
        const Words block = block_of(c.explore_key, (u32)e, 0, step);
        const bool explores = block.w[0] < threshold;
        u8 act[BRANCHES];
#pragma unroll
        for (u32 b = 0; b < BRANCHES; ++b) {
            act[b] = explores ? action_of(block.w[1 + b]) : (u8)argmax(c.q + Q_VALUES * e + ACTIONS * b);
        }
        const u32 t = c.accounts.time[e];
        Account account = account_of(c.accounts, e);
        float4 before, after;
        state_of(account, (float*)&before);
        const Stepped s = trade(account, act[0], act[1], act[2], c.bars.cost[t], c.bars.vol[t], c.bars.ret[t + 1]);
        state_of(account, (float*)&after);
        const u32 taken = c.accounts.episode_bars[e] + 1;
        const bool done = episode_done(t, c.window_end, taken, c.episode_bars);
        c.explores[e] = explores;
        for (u32 b = 0; b < BRANCHES; ++b) c.actions[BRANCHES * e + b] = act[b];
        c.rewards[e] = s.reward;
        const u64 row = first_slot(c.ring, step) + e;
        c.ring.asset[row] = 0;
        c.ring.time[row] = t;
        c.ring.before[row] = before;
        c.ring.after[row] = after;
        for (u32 b = 0; b < BRANCHES; ++b) c.ring.actions[BRANCHES * row + b] = act[b];
        c.ring.done[row] = done;
        c.ring.reward[row] = s.reward;
        c.ring.priority[row] = *c.ring.priority_max;
        const Account fresh = {};
        store_account(c.accounts, e, done ? fresh : account);
        c.accounts.episode_bars[e] = done ? 0 : taken;
        c.accounts.time[e] = done ? reset_time(c.reset_key, (u32)e, step + 1, c.window_start, c.window_end) : t + 1;
    }
}

// All accounts at the start of an episode that begins at environment step 0. Without a key, at the window's start.
KERNEL start_episodes(const Accounts a, u32 key0, u32 key1, u32 random, u32 window_start, u32 window_end) {
    const u32 key[2] = {key0, key1};
    for (u64 e = first_item(); e < a.count; e += item_stride()) {
        const Account fresh = {};
        store_account(a, e, fresh);
        a.episode_bars[e] = 0;
        a.time[e] = random ? reset_time(key, (u32)e, 0, window_start, window_end) : window_start;
    }
}

struct Trail {
    u32* time;
    float* state;  // [steps, 4]
    float* reward;
    float* equity;
    float* peak;
    u8* stopped;
    u8* done;
};

// Given actions [environments, steps, 3] played by each account; what every step left goes into the trail, for the vectors.
KERNEL play_episodes(const Accounts a, const Bars bars, const u8* actions, u32 steps, u32 key0, u32 key1, u32 random,
                     u32 window_start, u32 window_end, u32 episode_bars, const Trail trail) {
    const u32 key[2] = {key0, key1};
    for (u64 e = first_item(); e < a.count; e += item_stride()) {
        for (u32 step = 0; step < steps; ++step) {
            const u64 i = e * steps + step;
            const u32 t = a.time[e];
            Account account = account_of(a, e);
            const u8* act = actions + BRANCHES * i;
            const Stepped s = trade(account, act[0], act[1], act[2], bars.cost[t], bars.vol[t], bars.ret[t + 1]);
            const u32 taken = a.episode_bars[e] + 1;
            const bool done = episode_done(t, window_end, taken, episode_bars);
            trail.time[i] = t;
            state_of(account, trail.state + STATE_COLUMNS * i);
            trail.reward[i] = s.reward;
            trail.equity[i] = account.equity;
            trail.peak[i] = account.peak;
            trail.stopped[i] = s.stopped;
            trail.done[i] = done;
            const Account fresh = {};
            store_account(a, e, done ? fresh : account);
            a.episode_bars[e] = done ? 0 : taken;
            const u32 again = random ? reset_time(key, (u32)e, step + 1, window_start, window_end) : window_start;
            a.time[e] = done ? again : t + 1;
        }
    }
}

// One environment step, or one update, is done.
KERNEL count_env_step(Counters* counters) {
    if (counters->stop == 0) counters->env_steps += 1;
}

KERNEL count_update(Counters* counters) {
    if (counters->stop != 0) return;
    counters->updates += 1;
    counters->fold_updates += 1;
}
