// Enough of CUDA to run a program's source on a CPU: the threads of a block are fibers. Those of a warp take turns, which
// end at barriers and wherever lanes exchange something. A warp goes on until all its threads have come to a barrier.
// What an element is in memory, and what is done to a sum, are the tests': float32, float16 or bfloat16, and no activation.
// No header of C++: to parse those would take longer than all that follows.
#include <setjmp.h>
#include <ucontext.h>

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __align__ alignas
#define __expf __builtin_expf
#define erfcf __builtin_erfcf

struct float2 {
  float x, y;
};
struct uint2 {
  unsigned int x, y;
};
struct uint4 {
  unsigned int x, y, z, w;
};
struct emulated_index {
  int x, y, z;
};
typedef unsigned int word;
template <typename T>
T max(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
T min(T a, T b) {
  return a < b ? a : b;
}
constexpr bool IS_FLOAT = EMULATED_FLOAT, IS_HALF = EMULATED_HALF, HAS_RESIDUAL = EMULATED_RESIDUAL;
constexpr int SIZE = IS_FLOAT ? 4 : 2;

static emulated_index threadIdx, blockIdx, gridDim = {1, 1, 1};
static jmp_buf emulated_caller;
static jmp_buf* emulated_threads;
static bool* emulated_ended;
static void (*emulated_body)();
static word* emulated_shared;

// Jumps, as swapcontext() asks the system twice each time for masks of signals, which never change here.
static void emulated_yield() {
  if (!_setjmp(emulated_threads[threadIdx.x])) _longjmp(emulated_caller, 1);
}

// The first thing that is wrong, if any. Its thread goes no further, and the launch ends once the others have to wait.
static const char* emulated_fault;
static void emulated_report(const char* fault) {
  if (!emulated_fault) emulated_fault = fault;
}

// A thread pauses when it has come to a barrier. One that only waits in its turn says for what.
static int emulated_turn, emulated_paused, emulated_waiting;
static const char* emulated_awaited;
static void emulated_pause() {
  ++emulated_paused;
  emulated_yield();
}
static void emulated_wait(const char* awaited) {
  ++emulated_waiting, emulated_awaited = awaited;
  emulated_pause();
}
static void emulated_fail(const char* fault) {
  for (emulated_report(fault);;) emulated_wait(fault);
}

// A barrier is open for those that met it from the turn after its last arrival on, so that a warp stays together.
static struct {
  int arrivals, opened;
} emulated_barriers[16];
static int barrier_arrive(int barrier, int threads) {
  if (++emulated_barriers[barrier].arrivals % threads == 0) emulated_barriers[barrier].opened = emulated_turn;
  return (emulated_barriers[barrier].arrivals - 1) / threads * threads + threads;
}
static void barrier_meet(int barrier, int threads) {
  const int needed = barrier_arrive(barrier, threads);
  emulated_pause();
  while (emulated_barriers[barrier].arrivals < needed)
    emulated_wait("threads wait at a barrier that no other thread will meet");
  while (emulated_barriers[barrier].opened == emulated_turn) emulated_yield();
}
static int emulated_block;  // threads of a block
static void __syncthreads() { barrier_meet(0, emulated_block); }
static void __syncwarp() { emulated_yield(); }
static void begin_next_launch() {}

static word __float_as_uint(float v) {
  word bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return bits;
}
static float __uint_as_float(word bits) {
  float v;
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
static float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static float2 make_float2(float x, float y) { return {x, y}; }
static void sincospif(float v, float* sine, float* cosine) {
  *sine = (float)__builtin_sin(__builtin_acos(-1.0) * v), *cosine = (float)__builtin_cos(__builtin_acos(-1.0) * v);
}

static uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
static uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
static float __fdividef(float a, float b) { return a / b; }

// All numbers of float16, as a processor may have no instruction for it.
static struct widened {
  float of[1 << 16];
  widened() {
    for (int i = 0; i < 1 << 16; ++i) {
      const unsigned short bits = i;
      _Float16 v;
      __builtin_memcpy(&v, &bits, 2);
      of[i] = (float)v;
    }
  }
} halves;
static float half_widen(word h) { return halves.of[h & 0xffffu]; }
static word half_narrow(float v) {
  const _Float16 h = (_Float16)v;
  unsigned short bits;
  __builtin_memcpy(&bits, &h, 2);
  return bits;
}
template <int BYTES>
void element_fetch(word* v, const char* from, bool inside) {
  __builtin_memset(v, 0, max(BYTES, 4));
  if (inside) __builtin_memcpy(v, from, BYTES);
}
template <int BYTES>
void element_read(word* v, const char* from) {
  element_fetch<BYTES>(v, from, true);
}
static float element_at(const word* v, int i) {
  if (IS_HALF) return half_widen(v[i / 2] >> 16 * (i % 2));
  const word bits = IS_FLOAT ? v[i] : v[i / 2] >> 16 * (i % 2) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
static word element_narrow(float v) {  // to float16, or to bfloat16
  if (IS_HALF) return half_narrow(v);
  word bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
static word element_pack(float a, float b) { return element_narrow(a) | element_narrow(b) << 16; }
template <int BYTES>
void element_put(char* to, const word* v) {
  __builtin_memcpy(to, v, BYTES);
}
static float element_load(const char* from, long long i) {
  word v[1] = {};
  __builtin_memcpy(v, from + i * SIZE, SIZE);
  return element_at(v, 0);
}
constexpr int element_words(int elements) { return elements; }
template <int N>
void element_store(char* to, const float* v) {
  for (int i = 0; i < N; ++i) {
    word bits = IS_FLOAT ? 0 : element_narrow(v[i]);
    if (IS_FLOAT) __builtin_memcpy(&bits, v + i, SIZE);
    __builtin_memcpy(to + i * SIZE, &bits, SIZE);
  }
}
template <int N>
void element_pack_all(word (&packed)[element_words(N)], const float* v) {
  element_store<N>((char*)packed, v);
}
template <int N>
void epilogue_finish(float* sum, float bias, const char* residual) {
  for (int i = 0; i < N; ++i) sum[i] += bias + (HAS_RESIDUAL ? element_load(residual, i) : 0.0f);
}
template <int N>
void epilogue_store(char* to, const float* sum, const char* residual) {
  float v[N];
  for (int i = 0; i < N; ++i) v[i] = sum[i];
  epilogue_finish<N>(v, 0.0f, residual);
  element_store<N>(to, v);
}
static float epilogue_bias(const void* bias, int channel) {
  return EMULATED_BIAS ? element_load((const char*)bias, channel) : 0.0f;
}
static float epilogue_activation(float v) { return v; }
static word epilogue_pack(float a, float b) { return element_pack(a, b); }
// With float16 a bias that is not scaled is wrong. With other elements a kernel's sums may begin with biases.
constexpr float EPILOGUE_SCALE = IS_HALF ? 0.5f : 1.0f;
static word epilogue_pack_scaled(float a, float b) { return element_pack(a / EPILOGUE_SCALE, b / EPILOGUE_SCALE); }

static unsigned long long __cvta_generic_to_shared(const void* p) { return (const char*)p - (const char*)emulated_shared; }
static word __funnelshift_r(word low, word high, int shift) { return ((unsigned long long)high << 32 | low) >> shift; }
template <typename T>
T emulated_given(T v, int thread) {
  static T given[1024];
  given[threadIdx.x] = v;
  emulated_yield();
  const T taken = given[thread];
  emulated_yield();
  return taken;
}
template <typename T>
T __shfl_xor_sync(word, T v, int mask) {
  return emulated_given(v, threadIdx.x ^ mask);
}
template <typename T>
T __shfl_sync(word, T v, int lane) {
  return emulated_given(v, threadIdx.x / 32 * 32 + lane % 32);
}

static void emulated_entry() {
  emulated_yield();
  emulated_body();
  emulated_ended[threadIdx.x] = true;
  _longjmp(emulated_caller, 1);
}
static void emulated_start(char* stack, int bytes) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes;
  makecontext(&context, emulated_entry, 0);
  if (!_setjmp(emulated_caller)) setcontext(&context);
}
static void emulated_resume() {
  if (!_setjmp(emulated_caller)) _longjmp(emulated_threads[threadIdx.x], 1);
}

// Lets a warp go on until all its threads pause. Returns whether one did more than wait.
static bool emulated_advance(int first) {
  for (bool advanced = false;;) {
    int resumed = emulated_paused = emulated_waiting = 0;
    ++emulated_turn;
    for (threadIdx.x = first; threadIdx.x < min(first + 32, emulated_block); ++threadIdx.x)
      if (!emulated_ended[threadIdx.x]) ++resumed, emulated_resume();
    advanced |= emulated_waiting < resumed;
    if (emulated_paused == resumed) return advanced;
  }
}

// From barrier to barrier, the first warp is behind the others or ahead of them. So what only a barrier could prevent
// happens unless it is there. The sequence of Thue and Morse has no period, so a kernel whose steps have the same barriers
// sees both at each. If no warp can go on, threads that have not ended wait for ever.
static void (*emulated_end_block)() = [] {};
static void emulated_run_block() {
  const int last = (emulated_block - 1) / 32 * 32;
  bool advanced = true;
  for (int round = 0; advanced; ++round) {
    const bool ahead = __builtin_parity(round);
    advanced = false;
    for (int first = 0; first <= last; first += 32) advanced |= emulated_advance(ahead ? first : last - first);
  }
  for (int thread = 0; thread < emulated_block; ++thread)
    if (!emulated_ended[thread]) emulated_report(emulated_awaited);
  emulated_end_block();
}

static void emulated_launch(int blocks, int threads, int words, void (*body)()) {
  emulated_body = body;
  emulated_block = threads;
  constexpr int stack = 1 << 16;
  char* stacks = (char*)__builtin_malloc(threads * stack);
  emulated_threads = (jmp_buf*)__builtin_malloc(threads * sizeof(jmp_buf));
  emulated_ended = (bool*)__builtin_malloc(threads);
  emulated_shared = (word*)__builtin_malloc(words * sizeof(word));
  for (blockIdx.x = 0; blockIdx.x < blocks && !emulated_fault; ++blockIdx.x) {
    for (int i = 0; i < words; ++i) emulated_shared[i] = 0x7fc00000u;  // NaN
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
      emulated_ended[threadIdx.x] = false;
      emulated_start(stacks + threadIdx.x * stack, stack);
    }
    for (int barrier = 0; barrier < 16; ++barrier) emulated_barriers[barrier] = {};
    emulated_run_block();
  }
  __builtin_free(stacks);
  __builtin_free(emulated_threads);
  __builtin_free(emulated_ended);
  __builtin_free(emulated_shared);
}
