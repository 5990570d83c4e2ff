// A thread sums a strip of R rows by V columns of outputs: it slides down the input rows, each of which it reads once
// and multiplies into all the output rows that it reaches. Sums and the plane's weights stay in registers.
// Direct: a row's columns, and their neighbours left and right, come from global memory in aligned vectors, AHEAD rows
// before they are used; neighbouring lanes take neighbouring columns, then strips, then planes.
// Staged: a block copies P planes flat to shared memory, where they lie one after the other as in global memory,
// however short their rows. There a thread takes whole rows, neighbouring lanes neighbouring planes, an odd number of
// vectors apart, so that no two lanes meet in a bank, and which taps fall outside a row is known to the compiler.
// Blocks copied in BULK arrive one after the other: some sum and leave while others still wait for their planes.
constexpr bool IS_HALF = @IS_HALF@;
constexpr int PLANES = @PLANES@, C = @C@, H = @H@, W = @W@, K = @K@, STRIDE = @STRIDE@;
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@;  // those that can touch data
constexpr int R = @R@, V = @V@;
constexpr int HO = (H - 1) / STRIDE + 1, WO = (W - 1) / STRIDE + 1;
constexpr int TOP = TAPS_H / 2, LEFT = TAPS_W / 2, TAPS = TAPS_H * TAPS_W;
constexpr int STRIPS = (HO + R - 1) / R, ROWS = (R - 1) * STRIDE + TAPS_H;
constexpr int SIZE = IS_HALF ? 2 : 4;

typedef unsigned int word;

// BYTES of them from global memory, zeros where not inside. Without .nc the compiler moves no load past a store: what
// was asked for rows ahead stays there.
template <int BYTES>
__device__ __forceinline__ void depthwise_fetch(word* v, const char* from, bool inside) {
  if constexpr (BYTES == 16)
    asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
        " @p ld.global@LOAD@.v4.b32 {%0, %1, %2, %3}, [%4];}"
        : "=&r"(v[0]), "=&r"(v[1]), "=&r"(v[2]), "=&r"(v[3]) : "l"(from), "r"((int)inside));
  else if constexpr (BYTES == 8)
    asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
        " @p ld.global@LOAD@.v2.b32 {%0, %1}, [%2];}"
        : "=&r"(v[0]), "=&r"(v[1]) : "l"(from), "r"((int)inside));
  else if constexpr (BYTES == 4)
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b32 %0, 0; @p ld.global@LOAD@.b32 %0, [%1];}"
        : "=&r"(v[0]) : "l"(from), "r"((int)inside));
  else
    asm volatile("{.reg .pred p; .reg .u16 h; setp.ne.u32 p, %2, 0; mov.b16 h, 0;"
        " @p ld.global@LOAD@.u16 h, [%1]; cvt.u32.u16 %0, h;}"
        : "=&r"(v[0]) : "l"(from), "r"((int)inside));
}

template <int BYTES>
__device__ __forceinline__ void depthwise_put(char* to, const word* v) {
  if constexpr (BYTES == 16)
    asm volatile("st.global@STORE@.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
  else if constexpr (BYTES == 8)
    asm volatile("st.global@STORE@.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(v[0]), "r"(v[1]) : "memory");
  else if constexpr (BYTES == 4)
    asm volatile("st.global@STORE@.b32 [%0], %1;" :: "l"(to), "r"(v[0]) : "memory");
  else
    asm volatile("st.global@STORE@.u16 [%0], %1;" :: "l"(to), "h"((unsigned short)v[0]) : "memory");
}

__device__ __forceinline__ float depthwise_widen(unsigned short h) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
}

__device__ __forceinline__ word depthwise_narrow(float v) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}

// Which block and thread these are, asked anew each time.
__device__ __forceinline__ int depthwise_block() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}

__device__ __forceinline__ int depthwise_thread() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// 16 bytes to shared memory, on their way until depthwise_copied().
__device__ __forceinline__ void depthwise_copy(float* to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

__device__ __forceinline__ void depthwise_copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What one thread asks for and the copy engine does; sizes in bytes, multiples of 16. A barrier is for one use: it
// opens when all the bytes are there.
__device__ __forceinline__ void depthwise_expect(word* barrier, int bytes) {
  const word address = (word)__cvta_generic_to_shared(barrier);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(address) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
}

__device__ __forceinline__ void depthwise_bulk_in(float* to, const char* from, int bytes, word* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes),
                  "r"((word)__cvta_generic_to_shared(barrier)) : "memory");
}

__device__ __forceinline__ void depthwise_await(word* barrier) {
  asm volatile("{.reg .pred p; waiting: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra waiting;}"
               :: "r"((word)__cvta_generic_to_shared(barrier)) : "memory");
}

// Of what this thread wrote, before a __syncthreads() after which a thread calls depthwise_bulk_out().
__device__ __forceinline__ void depthwise_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void depthwise_bulk_out(char* to, const float* from, int bytes) {
  const word address = (word)__cvta_generic_to_shared(from);
  if constexpr (@STREAMING@)
    asm volatile("{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;"
                 " cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, policy;}"
                 :: "l"(to), "r"(address), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(address), "r"(bytes) : "memory");
}

// Shared memory may be given back.
__device__ __forceinline__ void depthwise_bulk_read() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}

constexpr int depthwise_words(int elements) { return IS_HALF ? (elements + 1) / 2 : elements; }

// Element i of what was fetched.
__device__ __forceinline__ float depthwise_element(const word* v, int i) {
  if constexpr (IS_HALF) return depthwise_widen((unsigned short)(v[i / 2] >> (16 * (i % 2))));
  return __uint_as_float(v[i]);
}

template <int N>
__device__ __forceinline__ void depthwise_store(char* to, const float* v) {
  word packed[depthwise_words(N)];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (!IS_HALF) packed[i] = __float_as_uint(v[i]);
    else if (i % 2 == 0) packed[i / 2] = depthwise_narrow(v[i]);
    else packed[i / 2] |= depthwise_narrow(v[i]) << 16;
  }
  depthwise_put<N * SIZE>(to, packed);
}

__device__ __forceinline__ float depthwise_load(const char* from, long long i) {
  word v[1];
  depthwise_fetch<SIZE>(v, from + i * SIZE, true);
  return depthwise_element(v, 0);
}

__device__ __forceinline__ int depthwise_channel(int plane) { return PLANES == C ? plane : plane % C; }

// Where tap t of a channel is.
__device__ __forceinline__ int depthwise_tap(int channel, int t) {
  return channel * (K * K) + (K / 2 - TOP + t / TAPS_W) * K + K / 2 - LEFT + t % TAPS_W;
}

#if @STAGED@
constexpr bool ASYNC = @ASYNC@, BULK = @BULK@;  // otherwise staged through registers
static_assert(!(IS_HALF && (ASYNC || BULK)), "copied as they are");
constexpr bool EACH_STRIP = @EACH_STRIP@;
constexpr int P = @P@, THREADS = P * STRIPS;
constexpr int CHANNELS = P / @IMAGES@;  // of each image: the planes of one channel share its weights
static_assert(V == WO, "whole rows");
constexpr int AREA = H * W, AREA_OUT = HO * WO;

// Elements between planes in shared memory: an odd number of vectors of depthwise_vector() elements.
constexpr int depthwise_pitch(int area) { return area % 8 == 0 ? area + 4 : area; }
constexpr int depthwise_vector(int area) { return area % 4 == 0 ? 4 : area % 2 == 0 ? 2 : 1; }

constexpr int PITCH = depthwise_pitch(AREA), PITCH_OUT = depthwise_pitch(AREA_OUT);
constexpr int PLANES_WORDS = (P * (PITCH > PITCH_OUT ? PITCH : PITCH_OUT) + 3) / 4 * 4;
constexpr int WEIGHTS_WORDS = BULK ? (CHANNELS * TAPS + 1) / 2 * 2 : CHANNELS * TAPS;  // then the barrier
static_assert(PLANES_WORDS + WEIGHTS_WORDS + 2 * BULK == @WORDS@, "the template's estimate of shared memory");
constexpr bool WHOLE = PLANES % P == 0;  // no block has fewer planes
static_assert(CHANNELS == P || (WHOLE && C % CHANNELS == 0), "whole images");
// A vector of shared memory may not straddle strips' rows.
static_assert(STRIPS == 1 || R * STRIDE * W % depthwise_vector(AREA) == 0, "aligned strips");
static_assert(STRIPS == 1 || R * WO % depthwise_vector(AREA_OUT) == 0, "aligned strips");

// The block's first plane.
__device__ __forceinline__ int depthwise_first() {
  const int block = depthwise_block(), across = C / CHANNELS;
  return CHANNELS == P ? block * P : block / across * (P / CHANNELS * C) + block % across * CHANNELS;
}

// How far element i of the block's planes, each of an area, is from the first.
__device__ __forceinline__ int depthwise_place(int i, int area) {
  return CHANNELS == P ? i : i + i / (CHANNELS * area) * ((C - CHANNELS) * area);
}

// And where in shared memory.
__device__ __forceinline__ int depthwise_pitched(int i, int area, int pitch) { return i + i / area * (pitch - area); }

// N floats between shared memory and registers, the first one OFFSET elements past a multiple of VECTOR.
template <int VECTOR, int N, bool WRITE>
__device__ __forceinline__ void depthwise_row(float* shared, int offset, float (&v)[N]) {
#pragma unroll
  for (int q = 0; q < (N + 6) / 4; ++q) {
    const int at = 4 * q - offset;
    if (VECTOR == 4 && at >= 0 && at + 4 <= N) {
      float4* const place = (float4*)(shared + at);
      if (WRITE) *place = make_float4(v[at], v[at + 1], v[at + 2], v[at + 3]);
      else { const float4 f = *place; v[at] = f.x, v[at + 1] = f.y, v[at + 2] = f.z, v[at + 3] = f.w; }
    } else {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        if (VECTOR >= 2 && at + e >= 0 && at + e + 2 <= N) {
          float2* const place = (float2*)(shared + at + e);
          if (WRITE) *place = make_float2(v[at + e], v[at + e + 1]);
          else { const float2 f = *place; v[at + e] = f.x, v[at + e + 1] = f.y; }
        } else {
#pragma unroll
          for (int s = 0; s < 2; ++s)
            if (at + e + s >= 0 && at + e + s < N) {
              if (WRITE) shared[at + e + s] = v[at + e + s];
              else v[at + e + s] = shared[at + e + s];
            }
        }
      }
    }
  }
}

// The sums of a strip of a plane; of STRIP the compiler knows which rows are padding, of -1, any, it does not.
template <int STRIP>
__device__ __forceinline__ void depthwise_sum(float* plane, const float* weights, int any, float (&sum)[R][V]) {
  const int strip = STRIP < 0 ? any : STRIP, top = strip * (R * STRIDE) - TOP;
  float weight[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS; ++t) weight[t] = weights[t];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < V; ++c) sum[r][c] = 0.0f;
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if ((i < TOP && top + i < 0) || ((STRIPS - 1) * R * STRIDE - TOP + i >= H && top + i >= H)) continue;
    float row[W];
    depthwise_row<depthwise_vector(AREA), W, false>(plane + (top + i) * W, (i + 4 * TOP - TOP) * W % 4, row);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int ky = i - r * STRIDE;
      if (ky >= 0 && ky < TAPS_H && (STRIP < 0 || STRIP * R + r < HO))
#pragma unroll
        for (int kx = 0; kx < TAPS_W; ++kx)
#pragma unroll
          for (int c = 0; c < V; ++c) {
            const int column = c * STRIDE + kx - LEFT;
            if (column >= 0 && column < W) sum[r][c] = fmaf(row[column], weight[ky * TAPS_W + kx], sum[r][c]);
          }
    }
  }
}

// In code of the strip's own.
template <int STRIP>
__device__ __forceinline__ void depthwise_own(float* plane, const float* weights, int strip, float (&sum)[R][V]) {
  if constexpr (STRIP + 1 == STRIPS) depthwise_sum<STRIP>(plane, weights, strip, sum);
  else if (strip == STRIP) depthwise_sum<STRIP>(plane, weights, strip, sum);
  else depthwise_own<STRIP + 1>(plane, weights, strip, sum);
}

// Results to memory by way of shared memory. What a thread knows of itself it asks again: kept, it costs registers.
__device__ __forceinline__ void depthwise_leave(float* planes, float (&sum)[R][V], void* y) {
  if (STRIPS > 1 || AREA != AREA_OUT) __syncthreads();  // a plane's results may lie over others' inputs
  const int thread = depthwise_thread(), first = depthwise_first();
  const int plane = thread % P, strip = STRIPS == 1 ? 0 : thread / P;
  float* const results = planes + plane * PITCH_OUT + strip * (R * WO);
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (HO % R == 0 || strip * R + r < HO)
      depthwise_row<depthwise_vector(AREA_OUT), V, true>(results + r * WO, r * WO % 4, sum[r]);
  if (BULK) depthwise_publish();
  __syncthreads();

  const bool whole = WHOLE || first + P <= PLANES;
  const int count = WHOLE ? P : min(P, PLANES - first);
  constexpr int QUADS_OUT = P * AREA_OUT / 4, RUN_OUT = PITCH_OUT == AREA_OUT ? CHANNELS : 1;
  char* const to = (char*)y + (long long)first * AREA_OUT * SIZE;
  if (CHANNELS * AREA_OUT % 4 == 0 && whole && ((size_t)y & (4 * SIZE - 1)) == 0) {
    if (BULK && thread == 0) {
#pragma unroll 16
      for (int p = 0; p < P; p += RUN_OUT)
        depthwise_bulk_out(to + (long long)depthwise_place(p * AREA_OUT, AREA_OUT) * SIZE, planes + p * PITCH_OUT,
                           RUN_OUT * AREA_OUT * SIZE);
      depthwise_bulk_read();
    }
#pragma unroll
    for (int i = 0; i < (QUADS_OUT + THREADS - 1) / THREADS && !BULK; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < QUADS_OUT) {
        const float4 f = *(const float4*)(planes + depthwise_pitched(4 * quad, AREA_OUT, PITCH_OUT));
        const float four[4] = {f.x, f.y, f.z, f.w};
        depthwise_store<4>(to + (long long)depthwise_place(4 * quad, AREA_OUT) * SIZE, four);
      }
    }
  } else {
#pragma unroll 4
    for (int t = thread; t < count * AREA_OUT; t += THREADS)
      depthwise_store<1>(to + (long long)depthwise_place(t, AREA_OUT) * SIZE,
                         planes + depthwise_pitched(t, AREA_OUT, PITCH_OUT));
  }
}

__device__ __forceinline__ void depthwise_rows(const void* __restrict__ x, const void* __restrict__ w,
                                               void* __restrict__ y, word* shared) {
  float* const planes = (float*)shared;
  float* const weights = planes + PLANES_WORDS;
  word* const barrier = shared + PLANES_WORDS + WEIGHTS_WORDS;
  const int thread = depthwise_thread(), first = depthwise_first();
  const bool whole = WHOLE || first + P <= PLANES;
  const int count = WHOLE ? P : min(P, PLANES - first);

  // Stage: all loads first.
  constexpr int QUADS = P * AREA / 4, QUADS_W = CHANNELS * TAPS / 4;  // meant only where they are whole
  constexpr bool QUADS_FIT = CHANNELS * AREA % 4 == 0;
  constexpr bool QUADS_W_FIT = TAPS == K * K && CHANNELS % 4 == 0 && C % 4 == 0;
  constexpr int EACH = (QUADS + THREADS - 1) / THREADS, EACH_W = (QUADS_W + THREADS - 1) / THREADS;
  const char* const from = (const char*)x + (long long)first * AREA * SIZE;
  const char* const from_w = (const char*)w;
  const bool vectors = QUADS_FIT && whole && ((size_t)x & (4 * SIZE - 1)) == 0;
  const bool vectors_w = QUADS_W_FIT && ((size_t)w & (4 * SIZE - 1)) == 0;
  if (BULK && thread == 0) {
    depthwise_expect(barrier, (vectors ? P * AREA * SIZE : 0) + (vectors_w ? CHANNELS * TAPS * SIZE : 0));
    constexpr int RUN = PITCH == AREA ? CHANNELS : 1;  // planes that lie one after the other, here and there
    if (vectors)
#pragma unroll 16
      for (int p = 0; p < P; p += RUN)
        depthwise_bulk_in(planes + p * PITCH, from + (long long)depthwise_place(p * AREA, AREA) * SIZE,
                          RUN * AREA * SIZE, barrier);
    if (vectors_w)
#pragma unroll 1
      for (int p = 0, channel = depthwise_channel(first), count_w; p < CHANNELS; p += count_w, channel = 0) {
        count_w = min(CHANNELS - p, C - channel);
        depthwise_bulk_in(weights + p * TAPS, from_w + channel * (TAPS * SIZE), count_w * (TAPS * SIZE), barrier);
      }
  }
  word v[EACH ? EACH : 1][depthwise_words(4)];
  if (!BULK && vectors) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int quad = i * THREADS + thread;
      const char* const four = from + (long long)depthwise_place(4 * quad, AREA) * SIZE;
      if (!ASYNC) depthwise_fetch<4 * SIZE>(v[i], four, quad < QUADS);
      else if (quad < QUADS) depthwise_copy(planes + depthwise_pitched(4 * quad, AREA, PITCH), four);
    }
  }
  if (vectors_w) {
    const int start = depthwise_channel(first) * TAPS;
    word vw[EACH_W ? EACH_W : 1][depthwise_words(4)];
#pragma unroll
    for (int i = 0; i < EACH_W && !BULK; ++i) {
      const int quad = i * THREADS + thread, at = start + 4 * quad;
      const char* const four = from_w + (long long)(at % (C * TAPS)) * SIZE;
      if (!ASYNC) depthwise_fetch<4 * SIZE>(vw[i], four, quad < QUADS_W);
      else if (quad < QUADS_W) depthwise_copy(weights + 4 * quad, four);
    }
#pragma unroll
    for (int i = 0; i < EACH_W && !BULK && !ASYNC; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < QUADS_W)
        ((float4*)weights)[quad] = make_float4(depthwise_element(vw[i], 0), depthwise_element(vw[i], 1),
                                               depthwise_element(vw[i], 2), depthwise_element(vw[i], 3));
    }
  } else {
#pragma unroll 4
    for (int t = thread; t < CHANNELS * TAPS; t += THREADS)
      weights[t] = depthwise_load(from_w, depthwise_tap((first + t / TAPS) % C, t % TAPS));
  }
  if (vectors) {
#pragma unroll
    for (int i = 0; i < EACH && !BULK && !ASYNC; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < QUADS)
        *(float4*)(planes + depthwise_pitched(4 * quad, AREA, PITCH)) =
            make_float4(depthwise_element(v[i], 0), depthwise_element(v[i], 1),
                        depthwise_element(v[i], 2), depthwise_element(v[i], 3));
    }
  } else {
#pragma unroll 4
    for (int t = thread; t < count * AREA; t += THREADS)
      planes[depthwise_pitched(t, AREA, PITCH)] = depthwise_load(from, depthwise_place(t, AREA));
  }
  if (ASYNC) depthwise_copied();
  __syncthreads();
  if (BULK) depthwise_await(barrier);

  const int plane = thread % P, strip = STRIPS == 1 ? 0 : thread / P;
  float* const here = planes + plane * PITCH;
  float sum[R][V];
  if constexpr (EACH_STRIP) depthwise_own<0>(here, weights + plane % CHANNELS * TAPS, strip, sum);
  else depthwise_sum<-1>(here, weights + plane % CHANNELS * TAPS, strip, sum);
  depthwise_leave(planes, sum, y);
}

#else
constexpr int AHEAD = @AHEAD@, THREADS = @THREADS@;
constexpr int GROUPS = (WO + V - 1) / V;
constexpr int RIGHT = LEFT >= STRIDE ? LEFT - STRIDE + 1 : 0;  // columns past the V * STRIDE in the middle

// The longest vector that divides a plane's rows and a thread's columns.
constexpr int depthwise_vector(int width, int columns) {
  int n = 16 / SIZE;
  while (width % n != 0 || columns % n != 0) n /= 2;
  return n;
}

constexpr int depthwise_power(int n) {
  int power = n > 0;
  while (power < n) power *= 2;
  return power;
}

// A row is fetched in whole vectors of LOADED, and at each end in one of PART, as long as it must be.
constexpr int LOADED = depthwise_vector(W, V * STRIDE), STORED = depthwise_vector(WO, V);
constexpr int LEFT_WHOLE = LEFT / LOADED * LOADED, LEFT_PART = depthwise_power(LEFT % LOADED);
constexpr int RIGHT_WHOLE = RIGHT / LOADED * LOADED, RIGHT_PART = depthwise_power(RIGHT % LOADED);
constexpr int MIDDLE = LEFT_WHOLE + V * STRIDE + RIGHT_WHOLE, FAR = V * STRIDE + RIGHT_WHOLE;
constexpr int MIDDLE_WORD = depthwise_words(LEFT_PART), VECTOR_WORDS = depthwise_words(LOADED);
constexpr int RIGHT_WORD = MIDDLE_WORD + MIDDLE / LOADED * VECTOR_WORDS;
constexpr int WORDS = RIGHT_WORD + depthwise_words(RIGHT_PART);
static_assert(WORDS == @ROW_WORDS@, "the template's estimate of registers");

// Any output by its taps, for tensors that start at no vector's boundary.
__device__ __forceinline__ void depthwise_plain(const char* x, const char* w, char* y, int channel, int row,
                                                int column) {
#pragma unroll 1
  for (int r = row; r < min(row + R, HO); ++r)
#pragma unroll 1
    for (int c = column; c < min(column + V, WO); ++c) {
      float sum = 0.0f;
#pragma unroll 1
      for (int t = 0; t < TAPS; ++t) {
        const int h = r * STRIDE + t / TAPS_W - TOP, v = c * STRIDE + t % TAPS_W - LEFT;
        if (h >= 0 && h < H && v >= 0 && v < W)
          sum = fmaf(depthwise_load(x, h * W + v), depthwise_load(w, depthwise_tap(channel, t)), sum);
      }
      depthwise_store<1>(y + (r * WO + c) * SIZE, &sum);
    }
}

__device__ __forceinline__ void depthwise_rows(const void* __restrict__ x, const void* __restrict__ w,
                                               void* __restrict__ y, word*) {
  const int id = blockIdx.x * THREADS + threadIdx.x;
  if (PLANES * STRIPS * GROUPS % THREADS != 0 && id >= PLANES * STRIPS * GROUPS) return;
  const int group = id % GROUPS, strip = id / GROUPS % STRIPS, plane = id / (GROUPS * STRIPS);
  const int channel = depthwise_channel(plane);
  const int column = group * (V * STRIDE), top = strip * (R * STRIDE) - TOP;
  const char* const x_plane = (const char*)x + (long long)plane * (H * W) * SIZE;
  char* const y_plane = (char*)y + (long long)plane * (HO * WO) * SIZE;
  if ((LOADED > 1 && ((size_t)x & (LOADED * SIZE - 1)) != 0) ||
      (STORED > 1 && ((size_t)y & (STORED * SIZE - 1)) != 0)) {
    depthwise_plain(x_plane, (const char*)w, y_plane, channel, strip * R, group * V);
    return;
  }
  const char* const origin = x_plane + ((long long)top * W + column) * SIZE;
  char* const target = y_plane + (strip * R * WO + group * V) * SIZE;

  auto padding = [](int i) { return STRIPS == 1 && (i < TOP || i >= H + TOP); };  // known beforehand
  // Row i of the strip; conditions that can't fail are left out.
  auto fetch = [&](int i, word (&row)[WORDS]) {
    if (padding(i)) return;
    const bool inside = (i >= TOP || top + i >= 0) &&
                        ((STRIPS - 1) * R * STRIDE - TOP + i < H || top + i < H);
    const char* const from = origin + (long long)i * (W * SIZE);
    if constexpr (LEFT_PART > 0)
      depthwise_fetch<LEFT_PART * SIZE>(row, from - (LEFT_WHOLE + LEFT_PART) * SIZE,
                                        inside && column >= LEFT_WHOLE + LEFT_PART);
#pragma unroll
    for (int q = 0; q < MIDDLE; q += LOADED) {
      const int at = q - LEFT_WHOLE;
      depthwise_fetch<LOADED * SIZE>(
          row + MIDDLE_WORD + q / LOADED * VECTOR_WORDS, from + at * SIZE,
          inside && (at >= 0 || column + at >= 0) && ((GROUPS - 1) * V * STRIDE + at < W || column + at < W));
    }
    if constexpr (RIGHT_PART > 0)
      depthwise_fetch<RIGHT_PART * SIZE>(row + RIGHT_WORD, from + FAR * SIZE, inside && column + FAR < W);
  };
  // Its element at a column from -LEFT on.
  auto element = [&](const word (&row)[WORDS], int at) {
    if (at < -LEFT_WHOLE) return depthwise_element(row, at + LEFT_WHOLE + LEFT_PART);
    if (at >= FAR) return depthwise_element(row + RIGHT_WORD, at - FAR);
    const int q = at + LEFT_WHOLE;
    return depthwise_element(row + MIDDLE_WORD + q / LOADED * VECTOR_WORDS, q % LOADED);
  };

  word rows[AHEAD + 1][WORDS];
#pragma unroll
  for (int i = 0; i < AHEAD && i < ROWS; ++i) fetch(i, rows[i]);
  float weight[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS; ++t) weight[t] = depthwise_load((const char*)w, depthwise_tap(channel, t));
  float sum[R][V] = {};
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (i + AHEAD < ROWS) fetch(i + AHEAD, rows[(i + AHEAD) % (AHEAD + 1)]);
    float row[(V - 1) * STRIDE + TAPS_W];
    if (!padding(i))
#pragma unroll
      for (int e = 0; e < (V - 1) * STRIDE + TAPS_W; ++e) row[e] = element(rows[i % (AHEAD + 1)], e - LEFT);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int ky = i - r * STRIDE;
      if (!padding(i) && ky >= 0 && ky < TAPS_H)
#pragma unroll
        for (int kx = 0; kx < TAPS_W; ++kx)
#pragma unroll
          for (int c = 0; c < V; ++c)
            sum[r][c] = fmaf(row[c * STRIDE + kx], weight[ky * TAPS_W + kx], sum[r][c]);
      if (ky == TAPS_H - 1 && (HO % R == 0 || strip * R + r < HO))
#pragma unroll
        for (int c = 0; c < V; c += STORED)
          if ((GROUPS - 1) * V + c < WO || group * V + c < WO)
            depthwise_store<STORED>(target + (r * WO + c) * SIZE, &sum[r][c]);
    }
  }
}
#endif
