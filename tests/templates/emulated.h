// Enough of CUDA to run a program's source on a CPU: the threads of a block are fibers, which take turns at barriers.
// What an element is in memory, and what is done to a sum, are the tests': float32, and nothing.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __expf std::exp

struct float2 {
  float x, y;
};
struct uint4 {
  unsigned int x, y, z, w;
};
struct emulated_index {
  int x;
};
typedef unsigned int word;
using std::max;
using std::min;
constexpr int SIZE = 4;
constexpr bool HAS_RESIDUAL = false, IS_FLOAT = true;

static emulated_index threadIdx, blockIdx;
static ucontext_t emulated_caller;
static std::vector<ucontext_t> emulated_threads;
static std::vector<char> emulated_ended;
static void (*emulated_body)();
static word* emulated_shared;

static void emulated_yield() { swapcontext(&emulated_threads[threadIdx.x], &emulated_caller); }
static void __syncthreads() { emulated_yield(); }
static void __syncwarp() { emulated_yield(); }

static float2 make_float2(float x, float y) { return {x, y}; }
static void sincospif(float v, float* sine, float* cosine) {
  *sine = (float)std::sin(std::acos(-1.0) * v), *cosine = (float)std::cos(std::acos(-1.0) * v);
}

static uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
static float __fdividef(float a, float b) { return a / b; }

template <int BYTES>
void element_fetch(word* v, const char* from, bool inside) {
  std::memset(v, 0, BYTES);
  if (inside) std::memcpy(v, from, BYTES);
}
static float element_at(const word* v, int i) {
  float value;
  std::memcpy(&value, v + i, SIZE);
  return value;
}
static float element_load(const char* from, long long i) { return element_at((const word*)(from + i * SIZE), 0); }
constexpr int element_words(int elements) { return elements; }
template <int N>
void element_store(char* to, const float* v) {
  std::memcpy(to, v, N * SIZE);
}
template <int N>
void epilogue_finish(float*, float, const char*) {}
static float epilogue_bias(const void*, int) { return 0.0f; }

static void emulated_entry() {
  emulated_body();
  emulated_ended[threadIdx.x] = 1;
  emulated_yield();
}

static void emulated_launch(int blocks, int threads, int words, void (*body)()) {
  emulated_body = body;
  std::vector<std::vector<char>> stacks(threads, std::vector<char>(1 << 16));
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    std::vector<word> shared(words, 0x7fc00000u);  // NaN
    emulated_shared = shared.data();
    emulated_threads.assign(threads, ucontext_t());
    emulated_ended.assign(threads, 0);
    for (int thread = 0; thread < threads; ++thread) {
      ucontext_t& context = emulated_threads[thread];
      getcontext(&context);
      context.uc_stack.ss_sp = stacks[thread].data();
      context.uc_stack.ss_size = stacks[thread].size();
      makecontext(&context, emulated_entry, 0);
    }
    for (int running = threads; running > 0;) {
      running = 0;
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
        if (!emulated_ended[threadIdx.x]) {
          swapcontext(&emulated_caller, &emulated_threads[threadIdx.x]);
          running += !emulated_ended[threadIdx.x];
        }
    }
  }
}
