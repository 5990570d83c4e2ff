// Streamed float32 weights. A few taps at a time are copied in the order of memory while the taps before them are
// multiplied. A warp splits the weights into halves as it reads them. A warpgroup multiplies 64 filters by all
// positions of a block. The window of these positions stays in shared memory, where the instruction reads rows wherever
// they begin.
static_assert(OWN == 16 && WARPS_F % 4 == 0 && WARPS_I == 1 && RUN == 2, "sums are as the instruction leaves them");
static_assert(IS_FLOAT && C == 1 && CHUNKS == 1, "a window of all taps of one channel");
typedef unsigned long long descriptor;
// Rows that a thread stages, and how many of them it loads at once. If these are all, it does not read any of them
// again to find their scale.
constexpr int ROWS_OF_THREAD = (ITEMS + THREADS - 1) / THREADS, ALL_ROWS = ROWS_OF_THREAD < 6 ? ROWS_OF_THREAD : 6;

// Begins a group of copies: the weights of a block's filters for a chunk of taps, in the order of memory.
__device__ __forceinline__ void stream_weights(word* to, const void* w, int first_warp, int chunk) {
  constexpr int QUADS = STREAMED / 4;
  const bool wide = N % 4 == 0 && (size_t)w % 16 == 0;
#pragma unroll 2
  for (int k = threadIdx.x; k < FILTERS * QUADS; k += THREADS) {
    const int own = k / QUADS, f = implicit_filter(first_warp + own / OWN, own % OWN);
    const int tap = (FLIP ? N - (chunk + 1) * STREAMED : chunk * STREAMED) + k % QUADS * 4;
    const char* const from = (const char*)w + ((long long)f * N + tap) * SIZE;
    word* const place = to + own * STREAM_PITCH + k % QUADS * 4;
    if (wide) {
      const bool inside = f < F && (word)tap < (word)N;
      implicit_copy(place, inside ? from : (const char*)w, inside);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        word one[1];
        element_fetch<SIZE>(one, from + e * SIZE, f < F && (word)(tap + e) < (word)N);
        place[e] = one[0];
      }
    }
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all but the last STREAM_STAGES - 2 groups of copies have arrived.
__device__ __forceinline__ void stream_await() {
  asm volatile("cp.async.wait_group %0;" :: "n"(STREAM_STAGES - 2) : "memory");
}

// Makes what was written visible to the instructions of warpgroups after the next barrier.
__device__ __forceinline__ void stream_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Reads 16 filters by 16 taps from `weights` on, in the order of a fragment.
__device__ __forceinline__ void stream_read(float2 (&v)[4], const word* weights, int step) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int tap = 16 * step + 8 * (i / 2) + lane % 4 * 2;
    const float2 pair = *(const float2*)(weights + (lane / 4 + 8 * (i % 2)) * STREAM_PITCH +
                                         (FLIP ? STREAMED - 2 - tap : tap));
    v[i] = FLIP ? float2{pair.y, pair.x} : pair;
  }
}

// Lowers the scale of a warp's weights, and its sums with it, if these weights are larger than those before them.
__device__ __forceinline__ void stream_scale(float (&sum)[NI][4], Scales& scales, const float2 (&v)[4]) {
  word largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) largest = max(largest, __float_as_uint(fmaxf(fabsf(v[i].x), fabsf(v[i].y))));
  const int before = scales.exponents >> 8;
  if (!__any_sync(0xffffffffu, largest >> 23 > 268 - before)) return;
  const int exponent = halves_exponent(halves_warp_max(largest)) + 127;
  const float factor = halves_power(max(exponent - before, -126));
#pragma unroll
  for (int i = 0; i < 4 * NI; ++i) sum[i / 4][i % 4] *= factor;
  scales.exponents = scales.exponents & 0xff | (word)exponent << 8;
}

__device__ __forceinline__ void stream_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void stream_add(float (&sum)[NI][4], const word (&a)[4], descriptor rows) {
  asm volatile(
      "{ .reg .pred add; setp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n@COLUMNS@k16.f32.@TYPE@.@TYPE@ {@REGISTERS@}, {@WEIGHTS@}, %@ROWS@, add, 1, 1, "
      "0; }"
      : @SUMS@
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows));
}

__device__ __forceinline__ void stream_finish(float (&sum)[NI][4]) {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 4 * NI; ++i) asm volatile("" : "+f"(sum[i / 4][i % 4])::"memory");  // read after the wait
}

// Multiplies a chunk of taps. The two rows of a step are those of an even distance and of the next odd one, which are
// further on.
__device__ __forceinline__ void stream_multiply(float (&sum)[NI][4], const word* weights, const word* window, int chunk,
                                                Scales& scales) {
  const word first = (word)__cvta_generic_to_shared(window) / 16;
  const word* const own = weights + threadIdx.x / 32 * OWN * STREAM_PITCH;
#pragma unroll
  for (int k = 0; k < STREAMED / 16 && chunk * (STREAMED / 16) + k < STEPS; ++k) {
    const int even = 2 * (chunk * (STREAMED / 16) + k), row = implicit_row(even), behind = implicit_row(even + 1) - row;
    const descriptor rows = first + row | (descriptor)behind << 16 | 8ull << 32;
    float2 v[4];
    stream_read(v, own, k);
    if (SCALED) stream_scale(sum, scales, v);
    word high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) halves_split(v[i].x * scales.w(), v[i].y * scales.w(), high[i], low[i]);
    stream_begin();
    stream_add(sum, high, rows);
    if (HALVES == 2) stream_add(sum, high, rows + ITEMS), stream_add(sum, low, rows);
    stream_finish(sum);
  }
}
