// What a step leaves for the host, and the word that says that a launch is done.
//
// Guarantee: cpu_to_gpu: copies. Reference: none, the CPU's engine is its own host.
#include "state.cuh"

struct Entry {
    float loss, norm;
    u32 stop;
    u32 unused;
};

KERNEL log_step(const Counters* counters, const float* loss, const float* norm, Entry* slot) {
    const Entry entry = {*loss, *norm, counters->stop, 0};
    *slot = entry;
}

// The last kernel of a launch: everything before it is visible to the host that reads its number.
KERNEL end_launch(Counters* counters, u32* word) {
    const u32 number = counters->launch + 1;
    counters->launch = number;
    __threadfence_system();
    *(volatile u32*)word = number;
}
