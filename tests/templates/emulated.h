// Enough of CUDA to run a program's source on a CPU: the threads of a block are fibers, which take turns at barriers.
// What an element is in memory, and what is done to a sum, are the tests': float32, and nothing.
// No header of C++: to parse those would take longer than all that follows.
#include <ucontext.h>

#define __device__
#define __forceinline__ inline
#define __restrict__

struct float2 {
  float x, y;
};
struct emulated_index {
  int x;
};
typedef unsigned int word;
constexpr int SIZE = 4;
constexpr bool HAS_RESIDUAL = false;

static emulated_index threadIdx, blockIdx;
static ucontext_t emulated_caller;
static ucontext_t* emulated_threads;
static bool* emulated_ended;
static void (*emulated_body)();
static word* emulated_shared;

static void emulated_yield() { swapcontext(&emulated_threads[threadIdx.x], &emulated_caller); }
static void __syncthreads() { emulated_yield(); }
static void __syncwarp() { emulated_yield(); }

static float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static float2 make_float2(float x, float y) { return {x, y}; }
static void sincospif(float v, float* sine, float* cosine) {
  *sine = (float)__builtin_sin(__builtin_acos(-1.0) * v), *cosine = (float)__builtin_cos(__builtin_acos(-1.0) * v);
}

template <int BYTES>
void element_fetch(word* v, const char* from, bool inside) {
  v[0] = 0;
  if (inside) __builtin_memcpy(v, from, SIZE);
}
static float element_at(const word* v, int i) {
  float value;
  __builtin_memcpy(&value, v + i, SIZE);
  return value;
}
template <int N>
void element_store(char* to, const float* v) {
  __builtin_memcpy(to, v, N * SIZE);
}
template <int N>
void epilogue_finish(float*, float, const char*) {}
static float epilogue_bias(const void*, int) { return 0.0f; }

static void emulated_entry() {
  emulated_body();
  emulated_ended[threadIdx.x] = true;
  emulated_yield();
}

static void emulated_launch(int blocks, int threads, int words, void (*body)()) {
  emulated_body = body;
  constexpr int stack = 1 << 16;
  char* stacks = new char[threads * stack];
  emulated_threads = new ucontext_t[threads];
  emulated_ended = new bool[threads];
  emulated_shared = new word[words];
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (int i = 0; i < words; ++i) emulated_shared[i] = 0x7fc00000u;  // NaN
    for (int thread = 0; thread < threads; ++thread) {
      ucontext_t& context = emulated_threads[thread] = ucontext_t();
      emulated_ended[thread] = false;
      getcontext(&context);
      context.uc_stack.ss_sp = stacks + thread * stack;
      context.uc_stack.ss_size = stack;
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
  delete[] stacks;
  delete[] emulated_threads;
  delete[] emulated_ended;
  delete[] emulated_shared;
}
