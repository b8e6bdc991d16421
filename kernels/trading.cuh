// Rule 10: one account, one bar.
#pragma once
#include "contract.cuh"

struct Account {
    float position, open;
    u32 bars;
    float equity, peak;
};

struct Stepped {
    float reward;
    bool stopped;
    float turnover;  // |change| + |closed by the stop|
};

// The market's tables by bar.
struct Bars {
    const float* columns;  // [bars, 60]
    const float* ret;
    const float* cost;
    const float* vol;
};

DEVICE int sign_of(float x) { return (x > 0.0f) - (x < 0.0f); }
DEVICE float target_of(u32 a) { return mul(sub((float)a, 2.0f), 0.5f); }
DEVICE float speed_of(u32 a) { return a == 0 ? 0.125f : mul((float)a, 0.25f); }
DEVICE float stop_of(u32 a) { return a == 0 ? 0.0f : (float)(1u << (a - 1)); }

DEVICE void state_of(const Account& a, float* out) {
    out[0] = a.position;
    out[1] = a.open;
    out[2] = mul((float)a.bars, 1.0f / 256.0f);
    out[3] = sub(a.peak, a.equity);
}

DEVICE Stepped trade(Account& a, u32 target, u32 speed, u32 stop, float cost, float vol, float next_ret) {
    const float before = a.position;
    a.position = add(before, mul(speed_of(speed), sub(target_of(target), before)));
    const float traded = magnitude(sub(a.position, before));
    const float turn = mul(traded, cost);
    if (sign_of(a.position) != sign_of(before)) {
        a.open = 0.0f;
        a.bars = 0;
    }
    const float r = mul(a.position, next_ret);
    a.open = add(a.open, r);
    a.bars += 1;
    const float multiple = stop_of(stop);
    Stepped s;
    s.stopped = multiple > 0.0f && a.open < negative(mul(multiple, vol));
    float closed = 0.0f, exit = 0.0f;
    if (s.stopped) {
        closed = magnitude(a.position);
        exit = mul(closed, cost);
        a.position = 0.0f;
        a.open = 0.0f;
        a.bars = 0;
    }
    s.reward = sub(sub(r, turn), exit);
    s.turnover = add(traded, closed);
    a.equity = add(a.equity, s.reward);
    a.peak = a.equity > a.peak ? a.equity : a.peak;
    return s;
}

DEVICE bool episode_done(u32 t, u32 window_end, u32 steps_taken, u32 episode_bars) {
    return t + 2 >= window_end || steps_taken >= episode_bars;
}

DEVICE u32 reset_time(const u32* key, u32 environment, u64 step, u32 window_start, u32 window_end) {
    const Words block = block_of(key, environment, 0, step);
    return window_start + (u32)index_below(window_end - window_start - 1, block.w[0], block.w[1]);
}
