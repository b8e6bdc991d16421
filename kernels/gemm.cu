// Chain GEMM of rule 2: C[m][n] = one chain of fused multiply-adds over k ascending, from +0, then the epilogue.
//
// Guarantee: cpu_to_gpu. Reference: src/engine/cpu/tiles.rs. Each thread owns its outputs for all of k, so no tile shape,
// grid or padding of rows and columns can change a bit; the tail of k is skipped, never padded with zeros.
// Compiled once for each tile shape of src/engine/cuda/gemm.rs: TM, TN outputs a thread, WM, WN warps a block of 4 x 8 lanes
// each, BK steps of k a stage, STAGES stages, operands fetched AHEAD steps before their use.
#define CONTRACT_FUSES
#include "contract.cuh"

constexpr int LM = 4, LN = 8;
constexpr int BM = WM * LM * TM, BN = WN * LN * TN;
constexpr int THREADS = WM * WN * 32;
constexpr int GM = TM < 4 ? TM : 4, GN = TN < 4 ? TN : 4;
constexpr int SA = BM + 4, SB = BN + 4;
constexpr int STAGE = BK * (SA + SB);
static_assert(THREADS % BK == 0 && TM % GM == 0 && TN % GN == 0, "tile shape");

struct Gemm {
    const float* a;
    const float* b;
    float* c;
    const float* bias;
    const float* y;
    u64 lda, ldb, ldc, ldy;
    u32 m, n, k;
    u32 vector_a, vector_b, vector_c;
    // not zero: the run has stopped, nothing is written
    const u32* stop;
};

enum Epilogue { STORE, BIAS, BIAS_RELU, RELU_BACKWARD };

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Four bytes into shared memory, or +0 where nothing is there to read.
DEVICE void copy_one(float* to, const float* from, bool inside) {
#if __CUDA_ARCH__ >= 800
    const int bytes = inside ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
#else
    *to = inside ? *from : 0.0f;
#endif
}

DEVICE void copy_four(float* to, const float* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
#else
    *(float4*)to = *(const float4*)from;
#endif
}

DEVICE void commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

template <int LEFT>
DEVICE void wait_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
#endif
}

// BK steps of ROWS rows (or columns) into tile[k][row]. K_INNER: neighbours in memory are neighbours in k.
template <bool K_INNER, int ROWS, int STRIDE>
DEVICE void load(float* tile, const float* from, u64 ld, u32 rows, u32 row0, u32 k, u32 k0, bool vector) {
    const u32 t = threadIdx.x;
    if (K_INNER) {
        constexpr int STEP = THREADS / BK;
        const u32 kk = t % BK;
        const bool deep = k0 + kk < k;
#pragma unroll
        for (int i = 0; i < (ROWS + STEP - 1) / STEP; ++i) {
            const u32 r = t / BK + i * STEP;
            if (ROWS % STEP != 0 && r >= ROWS) break;
            const bool inside = deep && row0 + r < rows;
            copy_one(tile + kk * STRIDE + r, inside ? from + (u64)(row0 + r) * ld + k0 + kk : from, inside);
        }
    } else {
        constexpr int FOURS = ROWS / 4, ALL = FOURS * BK;
#pragma unroll
        for (int i = 0; i < (ALL + THREADS - 1) / THREADS; ++i) {
            const u32 item = t + i * THREADS;
            if (ALL % THREADS != 0 && item >= ALL) break;
            const u32 r = item % FOURS * 4, kk = item / FOURS;
            float* to = tile + kk * STRIDE + r;
            const bool deep = k0 + kk < k;
            if (vector && deep && row0 + r + 4 <= rows) {
                copy_four(to, from + (u64)(k0 + kk) * ld + row0 + r);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool inside = deep && row0 + r + j < rows;
                    copy_one(to + j, inside ? from + (u64)(k0 + kk) * ld + row0 + r + j : from, inside);
                }
            }
        }
    }
}

template <int G>
DEVICE void fragment(const float* from, float* to) {
    if (G == 4) {
        *(float4*)to = *(const float4*)from;
    } else {
#pragma unroll
        for (int i = 0; i < G; ++i) to[i] = from[i];
    }
}

// Operands of one step of k for all outputs of the thread.
struct Step {
    float a[TM], b[TN];
};

DEVICE void fetch_step(const float* a_row, const float* b_row, Step& s) {
#pragma unroll
    for (int i = 0; i < TM / GM; ++i) fragment<GM>(a_row + i * LM * GM, s.a + i * GM);
#pragma unroll
    for (int j = 0; j < TN / GN; ++j) fragment<GN>(b_row + j * LN * GN, s.b + j * GN);
}

DEVICE void multiply(const Step& s, float (&acc)[TM][TN]) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = fused(s.a[i], s.b[j], acc[i][j]);
    }
}

// A whole stage, its steps ascending; operands are fetched AHEAD steps before they are multiplied.
DEVICE void whole_stage(const float* a_row, const float* b_row, float (&acc)[TM][TN]) {
    Step steps[AHEAD + 1];
#pragma unroll
    for (int kk = 0; kk < AHEAD; ++kk) fetch_step(a_row + kk * SA, b_row + kk * SB, steps[kk]);
#pragma unroll
    for (int kk = 0; kk < BK; ++kk) {
        const int next = kk + AHEAD;
        if (next < BK) fetch_step(a_row + next * SA, b_row + next * SB, steps[next % (AHEAD + 1)]);
        multiply(steps[kk % (AHEAD + 1)], acc);
    }
}

template <Epilogue E>
DEVICE float finish(const Gemm& g, float acc, u32 m, u32 n) {
    if (E == BIAS) return add(acc, g.bias[n]);
    if (E == BIAS_RELU) return relu(add(acc, g.bias[n]));
    if (E == RELU_BACKWARD) return relu_backward(g.y[(u64)m * g.ldy + n], acc);
    return acc;
}

template <Epilogue E>
DEVICE void store(const Gemm& g, const float (&acc)[TM][TN], u32 m0, u32 n0) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const u32 m = m0 + i / GM * LM * GM + i % GM;
        if (m >= g.m) continue;
#pragma unroll
        for (int j = 0; j < TN / GN; ++j) {
            const u32 n = n0 + j * LN * GN;
            float* to = g.c + (u64)m * g.ldc + n;
            if (GN == 4 && g.vector_c && n + 4 <= g.n) {
                float4 out;
                out.x = finish<E>(g, acc[i][j * GN + 0], m, n + 0);
                out.y = finish<E>(g, acc[i][j * GN + 1], m, n + 1);
                out.z = finish<E>(g, acc[i][j * GN + 2 < TN ? j * GN + 2 : 0], m, n + 2);
                out.w = finish<E>(g, acc[i][j * GN + 3 < TN ? j * GN + 3 : 0], m, n + 3);
                *(float4*)to = out;
            } else {
#pragma unroll
                for (int l = 0; l < GN; ++l) {
                    if (n + l < g.n) to[l] = finish<E>(g, acc[i][j * GN + l], m, n + l);
                }
            }
        }
    }
}

template <bool A_INNER, bool B_INNER, Epilogue E>
DEVICE void gemm(const Gemm& g) {
    extern __shared__ float4 shared[];
    float* stages = (float*)shared;
    if (*g.stop != 0) return;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 m_in = (warp / WN) * LM * TM + (lane / LN) * GM, n_in = (warp % WN) * LN * TN + (lane % LN) * GN;
    const u32 across = (g.n + BN - 1) / BN, down = (g.m + BM - 1) / BM;
    const u32 chunks = (g.k + BK - 1) / BK;
    // Tiles go down in bands, so that the blocks running at a time share operands in the L2 cache.
    constexpr u32 BAND = 8;
    for (u64 tile = blockIdx.x; tile < (u64)across * down; tile += gridDim.x) {
        const u32 band = (u32)(tile / ((u64)BAND * across)), in_band = (u32)(tile % ((u64)BAND * across));
        const u32 height = down - band * BAND < BAND ? down - band * BAND : BAND;
        const u32 m0 = (band * BAND + in_band % height) * BM, n0 = in_band / height * BN;
        auto fetch = [&](u32 chunk) {
            float* to = stages + chunk % STAGES * STAGE;
            load<A_INNER, BM, SA>(to, g.a, g.lda, g.m, m0, g.k, chunk * BK, g.vector_a);
            load<B_INNER, BN, SB>(to + BK * SA, g.b, g.ldb, g.n, n0, g.k, chunk * BK, g.vector_b);
        };
        float acc[TM][TN] = {};
#pragma unroll
        for (int s = 0; s < STAGES - 1; ++s) {
            if (s < chunks) fetch(s);
            commit();
        }
        for (u32 chunk = 0; chunk < chunks; ++chunk) {
            wait_copies<STAGES - 2>();
            __syncthreads();
            if (chunk + STAGES - 1 < chunks) fetch(chunk + STAGES - 1);
            commit();
            const float* a_row = stages + chunk % STAGES * STAGE + m_in;
            const float* b_row = stages + chunk % STAGES * STAGE + BK * SA + n_in;
            const u32 deep = g.k - chunk * BK;
            if (deep >= BK) {
                whole_stage(a_row, b_row, acc);
            } else {
                for (u32 kk = 0; kk < deep; ++kk) {
                    Step s;
                    fetch_step(a_row + kk * SA, b_row + kk * SB, s);
                    multiply(s, acc);
                }
            }
        }
        store<E>(g, acc, m0 + m_in, n0 + n_in);
        wait_copies<0>();
        __syncthreads();
    }
}

// Names: whether A and B have k as inner dimension (t: A is [k, m]; n: B is [k, n]).
#define GEMM(name, a_inner, b_inner, epilogue) \
    KERNEL __launch_bounds__(THREADS) name(const Gemm g) { gemm<a_inner, b_inner, epilogue>(g); }

GEMM(gemm_kk_store, true, true, STORE)
GEMM(gemm_kn_store, true, false, STORE)
GEMM(gemm_mk_store, false, true, STORE)
GEMM(gemm_mn_store, false, false, STORE)
GEMM(gemm_kk_bias, true, true, BIAS)
GEMM(gemm_kk_bias_relu, true, true, BIAS_RELU)
GEMM(gemm_kn_relu_backward, true, false, RELU_BACKWARD)
