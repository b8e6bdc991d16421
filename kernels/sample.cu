// Rule 8: draws from the ring, importance weights, priorities of the rows sampled, rows that become sampleable.
//
// Guarantee: cpu_to_gpu. Sums are u64 (atomics may add in any order), draws are functions of counters, and of a row sampled
// twice the highest batch position writes. Reference: src/engine/replay.rs.
#include "priority.cuh"
#include "ring.cuh"
#include "state.cuh"

constexpr u32 LANES = 32;

struct Sample {
    Ring ring;
    Tree tree;
    u32 key[2];
    u32 batch, prioritized, beta_halves;
    u32* rows;        // [B]
    float* weights;   // [B]
    u32* largest;     // bits of the largest weight; 0 before
    u64* drawn;       // [B]: the draws, or null
    const Counters* counters;
};

DEVICE u64 scan_lanes(u64 x) {
    const u32 lane = threadIdx.x % LANES;
#pragma unroll
    for (u32 h = 1; h < LANES; h *= 2) {
        const u64 below = __shfl_up_sync(0xffffffffu, x, h);
        if (lane >= h) x += below;
    }
    return x;
}

// Of up to 64 entries, two a lane, the first whose running sum exceeds r; r loses what lies before it.
DEVICE u32 pick(u64 first, u64 second, u64& r) {
    const u32 lane = threadIdx.x % LANES;
    const u64 through = scan_lanes(first + second), before = through - first - second;
    const u32 lanes = __ballot_sync(0xffffffffu, through > r);
    const u32 owner = __ffs(lanes) - 1;
    u32 index = 2 * lane;
    u64 left = r - before;
    if (left >= first) {
        left -= first;
        index += 1;
    }
    r = __shfl_sync(0xffffffffu, left, owner);
    return __shfl_sync(0xffffffffu, index, owner);
}

// The first row whose running sum exceeds r, by one warp; r is below the total.
DEVICE u64 tree_find(const Tree& tree, u64 r) {
    const u32 lane = threadIdx.x % LANES;
    u64 at = 0;
    u64 width[LEVELS], n = tree.rows;
    for (u32 l = 0; l < tree.levels; ++l) width[l] = n = (n + FANOUT - 1) / FANOUT;
    for (u32 l = tree.levels - 1; l-- > 0;) {
        const u64 first = at * FANOUT + 2 * lane;
        const u64 a = first < width[l] ? tree.level[l][first] : 0, b = first + 1 < width[l] ? tree.level[l][first + 1] : 0;
        at = at * FANOUT + pick(a, b, r);
    }
    const u64 first = at * FANOUT + 2 * lane;
    const u64 a = first < tree.rows ? tree.leaves[first] : 0, b = first + 1 < tree.rows ? tree.leaves[first + 1] : 0;
    return at * FANOUT + pick(a, b, r);
}

// A warp a batch position.
KERNEL sample_rows(const Sample s) {
    if (s.counters->stop != 0) return;
    const u64 steps = s.counters->env_steps, n = sampleable_rows(s.ring, steps);
    const u64 total = s.prioritized ? tree_total(s.tree) : n;
    const u64 warps = item_stride() / LANES;
    for (u64 i = first_item() / LANES; i < s.batch; i += warps) {
        const Words block = block_of(s.key, (u32)i, 0, s.counters->updates);
        const u64 r = index_below(total, block.w[0], block.w[1]);
        const u64 row = s.prioritized ? tree_find(s.tree, r) : nth_sampleable(s.ring, steps, r);
        if (threadIdx.x % LANES != 0) continue;
        s.rows[i] = (u32)row;
        if (s.drawn) s.drawn[i] = r;
        float w = 1.0f;
        if (s.prioritized) {
            const float mean = div(__ull2float_rn(total), __ull2float_rn(n));
            w = root_power(div(mean, (float)s.tree.leaves[row]), s.beta_halves);
            // Weights are positive, so their bits are in their order.
            atomicMax(s.largest, __float_as_uint(w));
        }
        s.weights[i] = w;
    }
}

// Divided by the batch's largest; uniform weights stay 1.
KERNEL divide_weights(const Sample s) {
    if (s.counters->stop != 0 || !s.prioritized) return;
    const float largest = __uint_as_float(*s.largest);
    for (u64 i = first_item(); i < s.batch; i += item_stride()) s.weights[i] = div(s.weights[i], largest);
}

// Importance weights of given priorities, before the division.
KERNEL importance_rows(u64 total, u64 n, const u32* q, u32 beta_halves, float* weights, u32* largest, u64 count) {
    const float mean = div(__ull2float_rn(total), __ull2float_rn(n));
    for (u64 i = first_item(); i < count; i += item_stride()) {
        weights[i] = root_power(div(mean, (float)q[i]), beta_halves);
        atomicMax(largest, __float_as_uint(weights[i]));
    }
}

KERNEL divide_rows(float* weights, const u32* largest, u64 count) {
    for (u64 i = first_item(); i < count; i += item_stride()) weights[i] = div(weights[i], __uint_as_float(*largest));
}

// A warp a draw.
KERNEL find_rows(const Tree tree, const u64* r, u32* rows, u64 count) {
    const u64 warps = item_stride() / LANES;
    for (u64 i = first_item() / LANES; i < count; i += warps) {
        const u64 row = tree_find(tree, r[i]);
        if (threadIdx.x % LANES == 0) rows[i] = (u32)row;
    }
}

// The tree of given leaves, from zero.
KERNEL fill_tree(const Tree tree, const u32* leaves) {
    for (u64 i = first_item(); i < tree.rows; i += item_stride()) tree_set(tree, i, leaves[i]);
}

struct Priorities {
    Ring ring;
    Tree tree;
    const u32* rows;      // [B]
    const float* deltas;  // [B, 3]; null: `given` holds the priorities
    const u32* given;
    u32* owner;  // [ring rows]: 0 but between the two kernels
    float epsilon;
    u32 alpha_halves, batch;
    const u32* stop;
};

// The highest batch position of each row sampled.
KERNEL claim_rows(const Priorities p) {
    if (*p.stop != 0) return;
    for (u64 i = first_item(); i < p.batch; i += item_stride()) atomicMax(p.owner + p.rows[i], (u32)i + 1);
}

KERNEL write_priorities(const Priorities p) {
    if (*p.stop != 0) return;
    for (u64 i = first_item(); i < p.batch; i += item_stride()) {
        const u32 q = p.deltas ? priority_of(p.deltas + BRANCHES * i, p.epsilon, p.alpha_halves) : p.given[i];
        // The largest so far counts every priority, also one that another position overwrites.
        atomicMax(p.ring.priority_max, q);
        const u64 row = p.rows[i];
        if (p.owner[row] != i + 1) continue;
        p.owner[row] = 0;
        p.ring.priority[row] = q;
        tree_set(p.tree, row, q);
    }
}

// Rows of environment step `step` count from now on.
DEVICE void open_step(const Ring& ring, const Tree& tree, u64 step, u64 e) {
    const u64 row = first_slot(ring, step) + e;
    tree_set(tree, row, ring.priority[row]);
}

// After a load: every environment step that can be sampled, into a tree of zeros.
KERNEL rebuild_tree(const Ring ring, const Tree tree, u64 steps) {
    const u64 first = first_sampleable(ring, steps), end = end_sampleable(ring, steps);
    const u64 n = end > first ? (end - first) * ring.environments : 0;
    for (u64 i = first_item(); i < n; i += item_stride()) {
        open_step(ring, tree, first + i / ring.environments, i % ring.environments);
    }
}

// After an environment step: its rows do not count yet, those of the step n - 1 before it do.
KERNEL open_rows(const Ring ring, const Tree tree, const Counters* counters) {
    if (counters->stop != 0) return;
    const u64 done = counters->env_steps;
    for (u64 e = first_item(); e < ring.environments; e += item_stride()) {
        tree_set(tree, first_slot(ring, done - 1) + e, 0);
        if (done >= ring.n_step) open_step(ring, tree, done - ring.n_step, e);
    }
}
