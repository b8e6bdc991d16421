// Which cuBLASLt algorithms compute exactly the ascending-k FMA chain of docs/contract.md, rule 2, for every matrix product
// of the engine at sizes S, M and L, as it is used: transpositions, leading dimensions, bias and ReLU epilogues, on hard
// inputs. The reference is a kernel with one fmaf chain per output element, itself held against the host on samples.
//
//   nvcc -O2 -std=c++17 -o gemm_chain gemm_chain.cu -lcublasLt && ./gemm_chain gemm_chain.json
//
// One JSON line a product and epilogue with every algorithm that the heuristic offers; a short table on standard output.
// All output bits are compared, NaN results as one value. Not tried: the auxiliary outputs of epilogues, other libraries.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CUDA(call) check((int)(call), #call, __LINE__)
static void check(int code, const char* call, int line) {
  if (code != 0) {
    fprintf(stderr, "line %d: %s: error %d\n", line, call, code);
    exit(2);
  }
}

// C[m, n] = sum over k of op(A)[m, k] * op(B)[k, n], column-major; ta and tb say that A and B lie transposed.
struct Product {
  std::string name;
  int m, n, k;
  bool ta, tb;
  int lda, ldb, ldc;
  bool forward;  // bias and ReLU follow
};

enum Input { UNIFORM, SPARSE, ZEROS, SUBNORMAL, OVERFLOWING, ORDER, INPUTS };
static const char* INPUT[] = {"uniform", "relu-sparse", "signed-zeros", "subnormal", "near-overflow", "order"};

__device__ static uint32_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return (uint32_t)(x ^ x >> 31);
}

// One operand; `k_is_row` says along which side the summed dimension lies. Seed 1 is A, 2 is B, 3 the bias.
__global__ void fill(float* p, size_t rows, size_t columns, size_t ld, bool k_is_row, int input, uint32_t seed, int K) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= rows * columns) return;
  size_t row = i % rows, column = i / rows, k = k_is_row ? row : column;
  uint32_t word = mix((uint64_t)seed << 40 | (i + 1));
  float u = (float)(word >> 8) * (1.0f / 16777216.0f) - 0.5f, x = u;
  if (input == SPARSE) x = u > 0 ? u : 0.0f;
  if (input == ZEROS) x = word % 4 == 0 ? u : word % 4 == 1 ? 0.0f : -0.0f;
  if (input == SUBNORMAL) x = u * 3e-20f;    // products lie below 2^-126
  if (input == OVERFLOWING) x = u * 4e19f;   // some sums pass the largest number
  if (input == ORDER) {                      // +2^24, -2^24 and a tiny value, at three positions of the chain
    x = seed == 2 ? 1.0f : u * 0.125f;
    size_t turn = row % 3 == 0 ? 0 : 1, first = turn ? K / 3 : 0, second = K / 2, third = K - 1;
    if (seed == 1 && k == first) x = 16777216.0f;
    if (seed == 1 && k == second) x = -16777216.0f;
    if (seed == 1 && k == third) x = 0.25f;
  }
  p[column * ld + row] = x;
}

__global__ void chain(float* c, const float* a, const float* b, const float* bias, int m, int n, int k, bool ta, bool tb,
                      int lda, int ldb, int ldc, bool relu) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  float acc = 0.0f;
  for (int l = 0; l < k; l++) {
    float x = ta ? a[(size_t)i * lda + l] : a[(size_t)l * lda + i];
    float y = tb ? b[(size_t)l * ldb + j] : b[(size_t)j * ldb + l];
    acc = __fmaf_rn(x, y, acc);
  }
  if (bias) acc = __fadd_rn(acc, bias[i]);
  if (relu) acc = acc > 0.0f || acc != acc ? acc : 0.0f;
  c[(size_t)j * ldc + i] = acc;
}

__global__ void differences(const float* a, const float* b, int m, int n, int ldc, unsigned long long* count) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= (size_t)m * n) return;
  size_t at = i / m * ldc + i % m;
  float x = a[at], y = b[at];
  bool same = (x != x && y != y) || __float_as_uint(x) == __float_as_uint(y);
  if (!same) atomicAdd(count, 1ull);
}

static dim3 blocks(size_t n) { return dim3((unsigned)((n + 255) / 256)); }

// Every product of one size: H wide trunk, B rows of an update, N environments.
static std::vector<Product> products(const std::string& size, int H, int B, int N) {
  std::vector<Product> all;
  struct Layer { const char* name; int in, out; };
  std::vector<Layer> layers = {{"bottleneck", 64, 32}, {"trunk1", 32, H}, {"trunk2", H, H}, {"heads", H, 2 * H}};
  // Each head's second layer reads its part of the 2H hidden columns: a leading dimension of 2H.
  layers.push_back({"value.out", H / 2, 1});
  layers.push_back({"branch.out", H / 2, 5});
  for (auto& l : layers) {
    bool part = std::string(l.name).find(".out") != std::string::npos;
    int ldx = part ? 2 * H : l.in;
    auto name = [&](const char* what, int rows) { return size + " " + l.name + " " + what + " rows=" + std::to_string(rows); };
    for (int rows : {2 * B, B, N}) {
      if (rows == N && (N == 2 * B || N == B)) continue;
      all.push_back({name("forward", rows), l.out, rows, l.in, true, false, l.in, ldx, l.out, true});
    }
    all.push_back({name("dX", B), l.in, B, l.out, false, false, l.in, l.out, ldx, false});
    all.push_back({name("dW", B), l.in, l.out, B, false, true, ldx, l.out, l.in, false});
  }
  return all;
}

struct Device {
  cublasLtHandle_t lt;
  cudaStream_t stream;
  void* workspace;
  size_t workspace_bytes = 64 << 20;
  unsigned long long* count;
};

struct Tried {
  std::string config;
  int split = 1;
  unsigned long long bad[INPUTS] = {};
  bool failed = false;
};

static int attribute(const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t which) {
  int value = 0;
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(algo, which, &value, sizeof value, &written);
  return value;
}

static std::vector<Tried> run(Device& d, const Product& p, bool epilogue, float* a, float* b, float* bias, float* c, float* want) {
  cublasLtMatmulDesc_t op;
  CUDA(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F));
  cublasOperation_t ta = p.ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  CUDA(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
  CUDA(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
  if (epilogue) {
    cublasLtEpilogue_t what = CUBLASLT_EPILOGUE_RELU_BIAS;
    CUDA(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &what, sizeof what));
    CUDA(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  }
  size_t ar = p.ta ? p.k : p.m, ac = p.ta ? p.m : p.k, br = p.tb ? p.n : p.k, bc = p.tb ? p.k : p.n;
  cublasLtMatrixLayout_t la, lb, lc;
  CUDA(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, ar, ac, p.lda));
  CUDA(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, br, bc, p.ldb));
  CUDA(cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, p.m, p.n, p.ldc));
  cublasLtMatmulPreference_t preference;
  CUDA(cublasLtMatmulPreferenceCreate(&preference));
  CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &d.workspace_bytes, sizeof(size_t)));
  cublasLtMatmulHeuristicResult_t found[24];
  int n = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(d.lt, op, la, lb, lc, lc, preference, 24, found, &n);
  if (status != CUBLAS_STATUS_SUCCESS) n = 0;
  std::vector<Tried> tried(n);
  for (int r = 0; r < n; r++) {
    auto* algo = &found[r].algo;
    tried[r].split = attribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    tried[r].config = "id " + std::to_string(attribute(algo, CUBLASLT_ALGO_CONFIG_ID)) + " tile " +
                      std::to_string(attribute(algo, CUBLASLT_ALGO_CONFIG_TILE_ID)) + " stages " +
                      std::to_string(attribute(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID)) + " reduction " +
                      std::to_string(attribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)) + " custom " +
                      std::to_string(attribute(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
  }
  float one = 1, zero = 0;
  size_t outputs = (size_t)p.m * p.n;
  for (int input = 0; input < INPUTS; input++) {
    fill<<<blocks(ar * ac), 256, 0, d.stream>>>(a, ar, ac, p.lda, p.ta, input, 1, p.k);
    fill<<<blocks(br * bc), 256, 0, d.stream>>>(b, br, bc, p.ldb, !p.tb, input, 2, p.k);
    fill<<<blocks(p.m), 256, 0, d.stream>>>(bias, p.m, 1, p.m, true, input == ORDER ? UNIFORM : input, 3, 1);
    dim3 block(32, 8), grid((p.m + 31) / 32, (p.n + 7) / 8);
    chain<<<grid, block, 0, d.stream>>>(want, a, b, epilogue ? bias : nullptr, p.m, p.n, p.k, p.ta, p.tb, p.lda, p.ldb, p.ldc, epilogue);
    CUDA(cudaGetLastError());
    for (int r = 0; r < n; r++) {
      CUDA(cudaMemsetAsync(c, 0xFF, (size_t)p.ldc * p.n * 4, d.stream));
      CUDA(cudaMemsetAsync(d.count, 0, 8, d.stream));
      if (cublasLtMatmul(d.lt, op, &one, a, la, b, lb, &zero, c, lc, c, lc, &found[r].algo, d.workspace, d.workspace_bytes, d.stream)) {
        tried[r].failed = true;
        continue;
      }
      differences<<<blocks(outputs), 256, 0, d.stream>>>(c, want, p.m, p.n, p.ldc, d.count);
      CUDA(cudaMemcpyAsync(&tried[r].bad[input], d.count, 8, cudaMemcpyDeviceToHost, d.stream));
      CUDA(cudaStreamSynchronize(d.stream));
    }
  }
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(la);
  cublasLtMatrixLayoutDestroy(lb);
  cublasLtMatrixLayoutDestroy(lc);
  cublasLtMatmulDescDestroy(op);
  return tried;
}

// The reference kernel against the host's fmaf, on one product and all inputs.
static unsigned long long host_check(Device& d, float* a, float* b, float* c) {
  const int m = 37, n = 29, k = 300;
  std::vector<float> ha(m * k), hb(k * n), hc(m * n);
  unsigned long long bad = 0;
  for (int input = 0; input < INPUTS; input++) {
    fill<<<blocks(m * k), 256, 0, d.stream>>>(a, m, k, m, false, input, 1, k);
    fill<<<blocks(k * n), 256, 0, d.stream>>>(b, k, n, k, true, input, 2, k);
    chain<<<dim3(2, 4), dim3(32, 8), 0, d.stream>>>(c, a, b, nullptr, m, n, k, false, false, m, k, m, false);
    CUDA(cudaStreamSynchronize(d.stream));
    CUDA(cudaMemcpy(ha.data(), a, ha.size() * 4, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(hb.data(), b, hb.size() * 4, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(hc.data(), c, hc.size() * 4, cudaMemcpyDeviceToHost));
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        float acc = 0;
        for (int l = 0; l < k; l++) acc = fmaf(ha[l * m + i], hb[j * k + l], acc);
        bool nan = acc != acc && hc[j * m + i] != hc[j * m + i];
        bad += !nan && memcmp(&acc, &hc[j * m + i], 4) != 0;
      }
  }
  return bad;
}

int main(int argc, char** argv) {
  FILE* out = fopen(argc > 1 ? argv[1] : "gemm_chain.json", "w");
  if (!out) return fprintf(stderr, "the output cannot be written\n"), 2;
  Device d;
  CUDA(cublasLtCreate(&d.lt));
  CUDA(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&d.workspace, d.workspace_bytes));
  CUDA(cudaMalloc(&d.count, 8));
  // The largest operand is 16384 rows of 2H = 8192 columns.
  const size_t most = (size_t)32768 * 8192;
  float *a, *b, *bias, *c, *want;
  for (float** p : {&a, &b, &c, &want}) CUDA(cudaMalloc(p, most * 4));
  CUDA(cudaMalloc(&bias, 32768 * 4));
  unsigned long long bad = host_check(d, a, b, c);
  printf("reference kernel against the host: %llu differences\n", bad);
  cudaDeviceProp device;
  CUDA(cudaGetDeviceProperties(&device, 0));
  printf("%s, %d multiprocessors, cuBLASLt %zu\n", device.name, device.multiProcessorCount, cublasLtGetVersion());
  std::vector<Product> all;
  struct Size { const char* name; int h, b, n; };
  for (auto& s : {Size{"S", 256, 256, 1024}, Size{"M", 1024, 4096, 16384}, Size{"L", 4096, 16384, 16384}})
    for (auto& p : products(s.name, s.h, s.b, s.n)) all.push_back(p);
  printf("%-34s %8s %6s %6s  %s\n", "product (epilogue)", "offered", "equal", "split", "not equal without split-K, by input");
  int unequal = 0;
  for (auto& p : all)
    for (int epilogue = 0; epilogue <= (p.forward ? 1 : 0); epilogue++) {
      auto tried = run(d, p, epilogue, a, b, bias, c, want);
      int equal = 0, split = 0, failed = 0;
      unsigned long long by_input[INPUTS] = {};
      fprintf(out, "{\"product\":\"%s\",\"epilogue\":%s,\"m\":%d,\"n\":%d,\"k\":%d,\"ta\":%s,\"tb\":%s,\"lda\":%d,\"ldb\":%d,\"ldc\":%d,\"algorithms\":[", p.name.c_str(), epilogue ? "\"bias+relu\"" : "null", p.m, p.n, p.k, p.ta ? "true" : "false", p.tb ? "true" : "false", p.lda, p.ldb, p.ldc);
      for (size_t r = 0; r < tried.size(); r++) {
        auto& t = tried[r];
        unsigned long long sum = 0;
        for (int i = 0; i < INPUTS; i++) sum += t.bad[i];
        equal += sum == 0 && !t.failed;
        split += t.split > 1;
        failed += t.failed;
        if (t.split <= 1)
          for (int i = 0; i < INPUTS; i++) by_input[i] += t.bad[i] > 0;
        fprintf(out, "%s{\"config\":\"%s\",\"split\":%d,\"failed\":%s,\"different\":[", r ? "," : "", t.config.c_str(), t.split, t.failed ? "true" : "false");
        for (int i = 0; i < INPUTS; i++) fprintf(out, "%s%llu", i ? "," : "", t.bad[i]);
        fprintf(out, "]}");
      }
      fprintf(out, "]}\n");
      std::string words;
      for (int i = 0; i < INPUTS; i++)
        if (by_input[i]) words += std::string(INPUT[i]) + " " + std::to_string(by_input[i]) + "  ";
      if (failed) words += "failed " + std::to_string(failed);
      unequal += !words.empty();
      printf("%-34s %8zu %6d %6d  %s\n", (p.name + (epilogue ? " +bias+relu" : "")).c_str(), tried.size(), equal, split, words.c_str());
    }
  printf("%d products with an algorithm that is not the chain although it does not split K\n", unequal);
  fclose(out);
  return bad ? 1 : 0;
}
