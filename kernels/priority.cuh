// Rule 8's integer priorities and the sum tree over them.
#pragma once
#include "contract.cuh"

// x to the power 0, 1/2 or 1, given in halves.
DEVICE float root_power(float x, u32 halves) { return halves == 0 ? 1.0f : (halves == 1 ? root(x) : x); }

DEVICE u32 priority_of(const float* deltas, float epsilon, u32 alpha_halves) {
    const float sum = add(add(magnitude(deltas[0]), magnitude(deltas[1])), magnitude(deltas[2]));
    const float p = root_power(add(div(sum, 3.0f), epsilon), alpha_halves);
    const float scaled = mul(p, 65536.0f);
    // A NaN stops the run by rule 11 before its priority is written; like the reference it becomes 0.
    if (is_nan(scaled)) return 0;
    return (u32)(scaled < 1.0f ? 1.0f : (scaled > 4294967040.0f ? 4294967040.0f : scaled));
}

constexpr u32 FANOUT = 64;
constexpr u32 LEVELS = 5;

// Running sums in slot order: level 0 holds sums of FANOUT leaves, each level above of FANOUT entries; the last has one.
struct Tree {
    u32* leaves;
    u64* level[LEVELS];
    u32 levels;
    u64 rows;
};

DEVICE u64 tree_total(const Tree& tree) { return tree.level[tree.levels - 1][0]; }

// Sums are u64 and wrap, so the order of the additions does not matter.
DEVICE void tree_set(const Tree& tree, u64 row, u32 value) {
    const u64 change = (u64)value - (u64)tree.leaves[row];
    tree.leaves[row] = value;
    if (change == 0) return;
    u64 at = row;
    for (u32 l = 0; l < tree.levels; ++l) {
        at /= FANOUT;
        atomicAdd(tree.level[l] + at, change);
    }
}
