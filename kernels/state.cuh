// Words that all kernels of a run share: where it stands, and whether it has stopped.
#pragma once
#include "contract.cuh"

struct Counters {
    u64 env_steps;     // environment steps of the fold
    u64 updates;       // Adam's t: updates done
    u64 fold_updates;  // updates of the fold
    u64 found;         // smallest (tensor, element) that is not finite, or ~0
    u32 stop;          // not 0: later kernels write nothing
    u32 launch;        // launches done, for the host
};

constexpr u64 NOTHING_FOUND = ~0ull;
constexpr u32 ELEMENT_BITS = 48;
