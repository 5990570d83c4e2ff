// Rows of whole planes in shared memory.
constexpr bool ASYNC = @ASYNC@, BULK = @BULK@;  // how planes are copied; through registers if both are false
static_assert(!(!IS_FLOAT && (ASYNC || BULK)), "copied as they are");
constexpr bool EACH_STRIP = @EACH_STRIP@;
constexpr int P = @P@, THREADS = P * STRIPS;
constexpr int CHANNELS = P / @IMAGES@;  // channels of each image; planes of one channel share its weights
static_assert(V == WO && !HAS_RESIDUAL, "whole rows");
constexpr int AREA = H * W, AREA_OUT = HO * WO;

// Returns the elements from a plane in shared memory to the next: an odd number of vectors of depthwise_vector()
// elements.
constexpr int depthwise_pitch(int area) { return area % 8 == 0 ? area + 4 : area; }
constexpr int depthwise_vector(int area) { return area % 4 == 0 ? 4 : area % 2 == 0 ? 2 : 1; }

constexpr int PITCH = depthwise_pitch(AREA), PITCH_OUT = depthwise_pitch(AREA_OUT);
constexpr int PLANES_WORDS = (P * (PITCH > PITCH_OUT ? PITCH : PITCH_OUT) + 3) / 4 * 4;
constexpr int WEIGHTS_WORDS = BULK ? (CHANNELS * TAPS + 1) / 2 * 2 : CHANNELS * TAPS;  // the barrier follows them
static_assert(PLANES_WORDS + WEIGHTS_WORDS + 2 * BULK == @WORDS@, "the template's estimate of shared memory");
constexpr bool WHOLE = PLANES % P == 0;  // every block has P planes
static_assert(CHANNELS == P || (WHOLE && C % CHANNELS == 0), "whole images");
// A vector of shared memory must not reach from one strip into another.
static_assert(STRIPS == 1 || R * STRIDE * W % depthwise_vector(AREA) == 0, "aligned strips");
static_assert(STRIPS == 1 || R * WO % depthwise_vector(AREA_OUT) == 0, "aligned strips");

// Returns the block's first plane.
__device__ __forceinline__ int depthwise_first() {
  const int block = depthwise_block(), across = C / CHANNELS;
  return CHANNELS == P ? block * P : block / across * (P / CHANNELS * C) + block % across * CHANNELS;
}

// Returns the distance in the tensor from the first element of the block's planes, of `area` elements each, to element
// i.
__device__ __forceinline__ int depthwise_place(int i, int area) {
  return CHANNELS == P ? i : i + i / (CHANNELS * area) * ((C - CHANNELS) * area);
}

// Returns where element i of the block's planes lies in shared memory.
__device__ __forceinline__ int depthwise_pitched(int i, int area, int pitch) { return i + i / area * (pitch - area); }

// Copies N floats from shared memory to registers, or back if WRITE. The first one lies `offset` elements past a
// multiple of VECTOR elements.
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

// Sums a strip of a plane. If STRIP is the number of the strip, the compiler knows which rows are padding. If it is -1,
// `any` is the number of the strip.
template <int STRIP>
__device__ __forceinline__ void depthwise_sum(float* plane, const float* weights, int any, float (&sum)[R][V]) {
  const int strip = STRIP < 0 ? any : STRIP, top = strip * (R * STRIDE) - TOP;
  float weight[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS; ++t) weight[t] = weights[depthwise_met(t)];
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

// Sums a strip with code that is compiled for this strip alone.
template <int STRIP>
__device__ __forceinline__ void depthwise_own(float* plane, const float* weights, int strip, float (&sum)[R][V]) {
  if constexpr (STRIP + 1 == STRIPS) depthwise_sum<STRIP>(plane, weights, strip, sum);
  else if (strip == STRIP) depthwise_sum<STRIP>(plane, weights, strip, sum);
  else depthwise_own<STRIP + 1>(plane, weights, strip, sum);
}

// Stores the results by way of shared memory. Indices of block and thread are read again, because keeping them costs
// registers.
__device__ __forceinline__ void depthwise_leave(float* planes, float (&sum)[R][V], void* y) {
  if (STRIPS > 1 || AREA != AREA_OUT) __syncthreads();  // results may overwrite inputs that other threads still read
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
        element_store<4>(to + (long long)depthwise_place(4 * quad, AREA_OUT) * SIZE, four);
      }
    }
  } else {
#pragma unroll 4
    for (int t = thread; t < count * AREA_OUT; t += THREADS)
      element_store<1>(to + (long long)depthwise_place(t, AREA_OUT) * SIZE,
                         planes + depthwise_pitched(t, AREA_OUT, PITCH_OUT));
  }
}

__device__ __forceinline__ void depthwise_rows(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                               void* __restrict__ y, word* shared) {
  wait_for_launch();
  float* const planes = (float*)shared;
  float* const weights = planes + PLANES_WORDS;
  word* const barrier = shared + PLANES_WORDS + WEIGHTS_WORDS;
  const int thread = depthwise_thread(), first = depthwise_first();
  const bool whole = WHOLE || first + P <= PLANES;
  const int count = WHOLE ? P : min(P, PLANES - first);

  // Stage planes and weights. All loads are issued before the first store.
  constexpr int QUADS = P * AREA / 4, QUADS_W = CHANNELS * TAPS / 4;  // used only if these divisions are exact
  constexpr bool QUADS_FIT = CHANNELS * AREA % 4 == 0;
  constexpr bool QUADS_W_FIT = TAPS == K * K && CHANNELS % 4 == 0 && C % 4 == 0;
  constexpr int EACH = (QUADS + THREADS - 1) / THREADS, EACH_W = (QUADS_W + THREADS - 1) / THREADS;
  const char* const from = (const char*)x + (long long)first * AREA * SIZE;
  const char* const from_w = (const char*)w;
  const bool vectors = QUADS_FIT && whole && ((size_t)x & (4 * SIZE - 1)) == 0;
  const bool vectors_w = QUADS_W_FIT && ((size_t)w & (4 * SIZE - 1)) == 0;
  if (BULK && thread == 0) {
    depthwise_expect(barrier, (vectors ? P * AREA * SIZE : 0) + (vectors_w ? CHANNELS * TAPS * SIZE : 0));
    constexpr int RUN = PITCH == AREA ? CHANNELS : 1;  // planes that are contiguous in both memories
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
  word v[EACH ? EACH : 1][element_words(4)];
  if (!BULK && vectors) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int quad = i * THREADS + thread;
      const char* const four = from + (long long)depthwise_place(4 * quad, AREA) * SIZE;
      if (!ASYNC) element_fetch<4 * SIZE>(v[i], four, quad < QUADS);
      else if (quad < QUADS) depthwise_copy(planes + depthwise_pitched(4 * quad, AREA, PITCH), four);
    }
  }
  if (vectors_w) {
    const int start = depthwise_channel(first) * TAPS;
    word vw[EACH_W ? EACH_W : 1][element_words(4)];
#pragma unroll
    for (int i = 0; i < EACH_W && !BULK; ++i) {
      const int quad = i * THREADS + thread, at = start + 4 * quad;
      const char* const four = from_w + (long long)(at % (C * TAPS)) * SIZE;
      if (!ASYNC) element_fetch<4 * SIZE>(vw[i], four, quad < QUADS_W);
      else if (quad < QUADS_W) depthwise_copy(weights + 4 * quad, four);
    }
#pragma unroll
    for (int i = 0; i < EACH_W && !BULK && !ASYNC; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < QUADS_W)
        ((float4*)weights)[quad] = make_float4(element_at(vw[i], 0), element_at(vw[i], 1),
                                               element_at(vw[i], 2), element_at(vw[i], 3));
    }
  } else {
#pragma unroll 4
    for (int t = thread; t < CHANNELS * TAPS; t += THREADS)
      weights[t] = element_load(from_w, depthwise_tap((first + t / TAPS) % C, t % TAPS));
  }
  if (vectors) {
#pragma unroll
    for (int i = 0; i < EACH && !BULK && !ASYNC; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < QUADS)
        *(float4*)(planes + depthwise_pitched(4 * quad, AREA, PITCH)) =
            make_float4(element_at(v[i], 0), element_at(v[i], 1),
                        element_at(v[i], 2), element_at(v[i], 3));
    }
  } else {
#pragma unroll 4
    for (int t = thread; t < count * AREA; t += THREADS)
      planes[depthwise_pitched(t, AREA, PITCH)] = element_load(from, depthwise_place(t, AREA));
  }
  if (ASYNC) depthwise_copied();
  __syncthreads();
  if (BULK) depthwise_await(barrier);

  const int plane = thread % P, strip = STRIPS == 1 ? 0 : thread / P;
  float* const here = planes + plane * PITCH;
  float sum[R][V];
  if constexpr (EACH_STRIP) depthwise_own<0>(here, weights + plane % CHANNELS * TAPS, strip, sum);
  else depthwise_sum<-1>(here, weights + plane % CHANNELS * TAPS, strip, sum);
  if (whole || plane < count) {
    const float bias_of = epilogue_bias(@BIAS@, depthwise_channel(first + plane % CHANNELS));
#pragma unroll
    for (int r = 0; r < R; ++r) epilogue_finish<V>(sum[r], bias_of, nullptr);  // no plane is staged with a residual
  }
  depthwise_leave(planes, sum, y);
}
