// Dense channels as matrix products of whole warpgroups: D[f, i] = sum over channels and taps of A Z, of which a
// warpgroup holds 64 filters by COLUMNS positions. The matrix instruction takes weights from registers and the signal
// from shared memory, where a row of 16 bytes is eight channels of one sample. Eight rows are a core matrix without
// swizzle, wherever they begin, so a tap is a distance in rows.
//
// Some warpgroups only stage what others multiply, because those that multiply wait while the tensor cores use their
// registers. If a block stages all channels at once, the weights stay in registers, and groups of positions take turns
// with tiles, so that one group multiplies while another one stores. If there are few filters, the instruction's 64
// rows are 32 filters at two neighbouring positions: a column is then every second position, and meets one tap more.
constexpr int GROUPS_F = @FILTER_GROUPS@, GROUPS_I = @POSITION_GROUPS@, COLUMNS = @COLUMNS@, WC = @CHANNELS@, TILES = @TILES@;
constexpr int GROUPS = GROUPS_F * GROUPS_I, STAGERS = @STAGERS@, CHUNKS = (C + WC - 1) / WC;
constexpr bool TURNS = CHUNKS == 1;
constexpr int NEIGHBOURS = @NEIGHBOURS@, OWN = 16 / NEIGHBOURS;  // filters of a warp
constexpr int FILTERS = 4 * OWN * GROUPS_F, TILE_COLUMNS = TURNS ? COLUMNS : COLUMNS * GROUPS_I;
constexpr int TILE = TILE_COLUMNS * NEIGHBOURS, STEP = STRIDE * NEIGHBOURS, TAPS = N + NEIGHBOURS - 1;
static_assert(NEIGHBOURS == 1 || (STRIDE == 1 && DILATION == 1 && N > 1 && !CHANNELS_LAST), "neighbours share taps");
constexpr int SPAN = TILE * TILES, PATCHES = (L + SPAN - 1) / SPAN, FILTER_BLOCKS = (F + FILTERS - 1) / FILTERS;
constexpr int OUTER = WC / 16, STEPS = OUTER * TAPS;  // steps of 16 channels and a tap

// Column i meets tap t in row (t * FAR % NEAR) * LENGTH + t * FAR / NEAR + i, or one row later if that aligns pairs of
// samples (SHIFT). Each of the NEAR remainders has LENGTH rows of its own. If taps are few or far apart (APART), each
// tap has rows of its own.
constexpr int UNIT = implicit_divisor(STEP, DILATION), NEAR = STEP / UNIT, FAR = DILATION / UNIT;
constexpr long long SHARED_LENGTH = TILE_COLUMNS + (long long)(TAPS - 1) * FAR / NEAR;
constexpr bool APART = (long long)TAPS * TILE_COLUMNS <= NEAR * SHARED_LENGTH;
constexpr bool PAIRED = !CHANNELS_LAST && !APART && STRIDE == 1 && M % 2 == 0;
constexpr int SHIFT = PAIRED ? LEFT % 2 : 0;
constexpr int PHASES = APART ? TAPS : NEAR, LENGTH = APART ? TILE_COLUMNS : ((int)SHARED_LENGTH + SHIFT + 1) / 2 * 2;
constexpr int ROWS = PHASES * LENGTH, ROW_GROUPS = WC / 8, ITEMS = ROW_GROUPS * ROWS / 2;  // items of two samples
constexpr bool ACROSS = NEIGHBOURS == 2;  // whether the two samples of an item are in different phases
constexpr int STAGES = @STAGES@, HELD = @HELD@;  // items that a thread fetches at once
constexpr bool WIDE_ROWS = CHANNELS_LAST && C % 8 == 0;

// Weights are copied in the order of memory. Their pitch keeps eight filters by four pairs of channels in different
// banks.
constexpr int PIECE = WC * N, PITCH = (PIECE + 7) / 16 * 16 + 8;
constexpr bool WIDE_WEIGHTS = C * (long long)N % 8 == 0;
constexpr int WINDOW_WORDS = 4 * ROW_GROUPS * ROWS, RAW_WORDS = FILTERS * PITCH / 2;
constexpr int RAWS = TURNS ? 1 : STAGES;
static_assert(STAGES * WINDOW_WORDS + RAWS * RAW_WORDS + 4 * STAGES == @WORDS@, "the template's estimate of shared memory");

typedef unsigned long long descriptor;

template <bool VALUE>
struct Truth {
  static constexpr bool value = VALUE;
};

// Returns the row in which column 0 meets tap t.
__device__ __forceinline__ int implicit_row(int t) {
  if (ACROSS) return (t + SHIFT) % 2 * LENGTH + (t + SHIFT) / 2;
  return APART ? t * LENGTH : t * FAR % NEAR * LENGTH + t * FAR / NEAR + SHIFT;
}

__device__ __forceinline__ void implicit_barrier(word barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void implicit_arrive(word barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

// Arrives at the barrier as soon as the copies of this thread have arrived.
__device__ __forceinline__ void implicit_arrive_copied(word barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory");
}

__device__ __forceinline__ void implicit_await(word barrier, int parity) {
  asm volatile("{ .reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again; }" :: "r"(barrier), "r"(parity) : "memory");
}

// A barrier for the threads that multiply, without those that stage.
__device__ __forceinline__ void implicit_meet() { asm volatile("bar.sync 1, %0;" :: "n"(128 * GROUPS) : "memory"); }

// Makes what was written visible to the matrix instructions after the next arrival.
__device__ __forceinline__ void implicit_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Computes sum = weights by rows, or adds that to sum if `add` is not 0, for 16 channels and a tap.
__device__ __forceinline__ void implicit_multiply(float (&sum)[COLUMNS / 2], const word (&a)[4], descriptor rows,
                                                  int add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %@ADD@, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n@COLUMNS@k16.f32.@TYPE@.@TYPE@ {@REGISTERS@}, {@WEIGHTS@}, %@ROWS@, add, 1, 1, "
      "0; }"
      : @SUMS@
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(add));
}

__device__ __forceinline__ void implicit_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void implicit_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void implicit_finish(float (&sum)[COLUMNS / 2]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) asm volatile("" : "+f"(sum[i])::"memory");  // read after the wait
}

// Transposes 8 by 8 halves, of which four lanes hold a row.
__device__ __forceinline__ word implicit_transpose(word v) {
  word turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(v));
  return turned;
}

__device__ __forceinline__ void conv1d_implicit_warpgroup(const void* __restrict__ x, const void* __restrict__ w,
                                                          @ADDED@ void* __restrict__ y, word* shared) {
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  const bool stages = threadIdx.x >= 128 * GROUPS;
  const int thread = stages ? threadIdx.x - 128 * GROUPS : threadIdx.x % 128;
  const int lane = thread % 32, quarter = lane % 4;
  const int group_f = threadIdx.x / 128 % GROUPS_F, group_i = threadIdx.x / 128 / GROUPS_F;
  const int filter = (int)(blockIdx.x % FILTER_BLOCKS) * FILTERS;
  const int own_filter = (4 * group_f + thread / 32) * OWN;  // the warp's first filter
  const int patch = (int)(blockIdx.x / FILTER_BLOCKS % PATCHES), b = (int)(blockIdx.x / FILTER_BLOCKS / PATCHES);
  const bool wide_rows = (size_t)x % 16 == 0, paired = (size_t)x % 4 == 0, wide_weights = (size_t)w % 16 == 0;
  auto window_of = [&](int stage) { return shared + stage * WINDOW_WORDS; };
  auto raw_of = [&](int stage) { return shared + STAGES * WINDOW_WORDS + stage * RAW_WORDS; };
  const word barriers = (word)__cvta_generic_to_shared(raw_of(RAWS));
  auto full = [&](int stage) { return barriers + 16 * stage; };
  auto empty = [&](int stage) { return barriers + 16 * stage + 8; };

  // Returns the row of an item's first sample (k = 0) or second sample (k = 1).
  auto row_of = [&](int item, int k) {
    return ACROSS ? item / LENGTH * ROWS + k * LENGTH + item % LENGTH : 2 * item + k;
  };
  // Loads two rows: eight channels, of each two samples in a word.
  auto fetch = [&](auto in_pairs, word (&v)[8], int item, int first, int chunk) {
    constexpr int NEXT = ACROSS ? 1 : STEP;
    const int row = row_of(item, 0), group = row / ROWS, phase = row % ROWS / LENGTH, j = row % LENGTH;
    const int sample = first * STRIDE - LEFT - SHIFT + phase * (APART ? DILATION : UNIT) + j * STEP;
    const int c = chunk * WC + 8 * group, channels = item >= ITEMS ? 0 : C % 8 == 0 ? (c < C ? 8 : 0) : C - c;
    const char* const from = (const char*)x + implicit_place(b, c, sample, C, M) * SIZE;
    const bool here = (word)sample < (word)M, next = (word)(sample + NEXT) < (word)M;
    constexpr long long CHANNEL = CHANNELS_LAST ? 1 : M, SAMPLE = (CHANNELS_LAST ? C : 1) * (long long)NEXT;
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (in_pairs.value) {
        element_fetch<2 * SIZE>(v + e, from + e * CHANNEL * SIZE, here && channels > e);
      } else {
        word two[2];
        element_fetch<SIZE>(two, from + e * CHANNEL * SIZE, here && channels > e);
        element_fetch<SIZE>(two + 1, from + (e * CHANNEL + SAMPLE) * SIZE, next && channels > e);
        v[e] = two[0] | two[1] << 16;
      }
  };
  auto put = [&](word* window, const word (&v)[8], int item) {
    if (item >= ITEMS) return;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const word halves = k ? 0x7632 : 0x5410;
      uint4 row;
      row.x = __byte_perm(v[0], v[1], halves), row.y = __byte_perm(v[2], v[3], halves);
      row.z = __byte_perm(v[4], v[5], halves), row.w = __byte_perm(v[6], v[7], halves);
      ((uint4*)window)[row_of(item, k)] = row;
    }
  };
  word held[2][HELD][8];  // rows that are being loaded, of this part and the next
  auto fetch_held = [&](word (&held)[HELD][8], int start, int first, int chunk) {
    if (PAIRED && paired) {
#pragma unroll
      for (int i = 0; i < HELD; ++i) fetch(Truth<true>(), held[i], start + i * STAGERS + thread, first, chunk);
    } else {
#pragma unroll
      for (int i = 0; i < HELD; ++i) fetch(Truth<false>(), held[i], start + i * STAGERS + thread, first, chunk);
    }
  };
  auto put_held = [&](const word (&held)[HELD][8], word* window, int start) {
#pragma unroll
    for (int i = 0; i < HELD; ++i) put(window, held[i], start + i * STAGERS + thread);
  };
  auto copy_rows = [&](word* window, int first, int chunk) {
#pragma unroll 4
    for (int k = thread; k < ROW_GROUPS * ROWS; k += STAGERS) {
      const int group = k % ROW_GROUPS, row = k / ROW_GROUPS;
      const int sample = first * STRIDE - LEFT + row / LENGTH * (APART ? DILATION : UNIT) + row % LENGTH * STEP;
      const int c = chunk * WC + 8 * group;
      const bool inside = (word)sample < (word)M && c < C;
      const char* const from = (const char*)x + (inside ? implicit_place(b, c, sample, C, M) * SIZE : 0);
      implicit_copy((uint4*)window + group * ROWS + row, from, inside);
    }
    implicit_copied();
  };
  auto copy_weights = [&](void* to, int chunk, int first, int step) {
    unsigned short* const raw = (unsigned short*)to;
    const unsigned short* const from = (const unsigned short*)w + ((long long)filter * C + chunk * WC) * N;
    const int there = min(PIECE, (C - chunk * WC) * N);
    if (WIDE_WEIGHTS && wide_weights) {
#pragma unroll 4
      for (int k = first; k < FILTERS * (PIECE / 8); k += step) {
        const int f = k / (PIECE / 8), r = k % (PIECE / 8) * 8;
        const bool inside = filter + f < F && r < there;
        implicit_copy(raw + f * PITCH + r, inside ? from + (long long)f * C * N + r : from, inside);
      }
    } else {
#pragma unroll 4
      for (int k = first; k < FILTERS * PIECE; k += step) {
        const int f = k / PIECE, r = k % PIECE;
        word v[1];
        element_fetch<SIZE>(v, (const char*)(from + (long long)f * C * N + r), filter + f < F && r < there);
        raw[f * PITCH + r] = (unsigned short)v[0];
      }
    }
  };

  // Packs fragments: a lane has two pairs of channels of two filters, whose taps are neighbours.
  word a[STEPS][4];
  auto pack = [&](const word* raw) {
#pragma unroll
    for (int o = 0; o < OUTER; ++o)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int f = own_filter + lane / 4 + (ACROSS ? 0 : i % 2 * 8), pair = 8 * o + i / 2 * 4 + quarter;
        const word* const from = raw + (f * (PITCH / 2) + pair * N);
        word taps[N];
#pragma unroll
        for (int t = 0; t < N; ++t) taps[t] = from[t];
#pragma unroll
        for (int k = 0; k < TAPS; ++k) {
          const int t = k - (ACROSS ? i % 2 : 0);
          const int low = FLIP ? N - 1 - t : t, high = N + low;
          const word halves = (low % 2 ? 0x32 : 0x10) | (high % 2 ? 0x7600 : 0x5400);
          a[o * TAPS + k][i] = t >= 0 && t < N ? __byte_perm(taps[low / 2], taps[high / 2], halves) : 0;
        }
      }
  };

  float sum[COLUMNS / 2];
  auto multiply = [&](const word* window, bool add) {
    const descriptor rows = (word)__cvta_generic_to_shared(window) / 16 + (TURNS ? 0 : COLUMNS * group_i) |
                            (descriptor)ROWS << 16 | 8ull << 32;  // strides of eight channels, of eight rows
    implicit_begin();
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
      implicit_multiply(sum, a[step], rows + (2 * (step / TAPS) * ROWS + implicit_row(step % TAPS)), add || step > 0);
    implicit_commit();
  };

  const bool wide = (CHANNELS_LAST ? F : L) % 4 == 0 && ((size_t)y | (size_t)residual_of) % 8 == 0;
  // Stores sixteen neighbours. Each lane has a pair of them in either half.
  auto store_run = [&](long long place, int count, word low, word high) {
    if (wide) {
      const bool odd = quarter % 2;
      const word other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
      const word four[2] = {odd ? other : low, odd ? high : other};
      const int offset = 8 * odd + quarter / 2 * 4;
      if (offset < count) element_put<8>((char*)y + (place + offset) * SIZE, four);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int offset = e / 2 * 8 + 2 * quarter + e % 2;
        const word v[1] = {(e < 2 ? low : high) >> (e % 2 * 16)};
        if (offset < count) element_put<2>((char*)y + (place + offset) * SIZE, v);
      }
    }
  };
  // Finishes and stores the two neighbouring positions of each of two columns.
  auto store_four = [&](int i, int j, float bias_value) {
    const int f = filter + own_filter + lane / 4;
    if (f >= F || i >= L) return;
    const long long place = implicit_place(b, f, i, F, L);
    float v[4];
    word more[2];
    if (HAS_RESIDUAL && wide) element_fetch<4 * SIZE>(more, residual_of + place * SIZE, true);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      v[e] = sum[4 * j + e % 2 * 2 + e / 2] + bias_value;
      if (HAS_RESIDUAL && wide) v[e] += element_at(more, e);
      else if (HAS_RESIDUAL && i + e < L) v[e] += element_load(residual_of, place + e);
      v[e] = epilogue_activation(v[e]);
    }
    if (wide) element_store<4>((char*)y + place * SIZE, v);
    else
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (i + e < L) element_store<1>((char*)y + (place + e) * SIZE, v + e);
  };
  auto store = [&](int first) {
    float bias_value[2] = {0.0f, 0.0f};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int f = filter + own_filter + 8 * r + lane / 4;
      if (HAS_BIAS && f < F) bias_value[r] = element_load(bias_of, f);
    }
    auto ended = [&](int j, int r) {  // returns two finished positions of a filter, as halves
      const int f = filter + own_filter + 8 * r + lane / 4, i = first + 8 * j + 2 * quarter;
      float v[2] = {sum[4 * j + 2 * r] + bias_value[r], sum[4 * j + 2 * r + 1] + bias_value[r]};
      if (HAS_RESIDUAL && !CHANNELS_LAST && wide) {
        word two[1];
        element_fetch<2 * SIZE>(two, residual_of + implicit_place(b, f, i, F, L) * SIZE, f < F && i < L);
        v[0] += element_at(two, 0), v[1] += element_at(two, 1);
      } else if (HAS_RESIDUAL && f < F) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (i + e < L) v[e] += element_load(residual_of, implicit_place(b, f, i + e, F, L));
      }
      return element_pack(epilogue_activation(v[0]), epilogue_activation(v[1]));
    };
    if (ACROSS) {
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; ++j) store_four(first + 16 * j + 4 * quarter, j, bias_value[0]);
      return;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j += 2)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (CHANNELS_LAST) {
          const int i = first + 8 * (j + k) + lane / 4, f = filter + own_filter;
          const word low = implicit_transpose(ended(j + k, 0)), high = implicit_transpose(ended(j + k, 1));
          store_run(implicit_place(b, f, i, F, L), i < L ? F - f : 0, low, high);
        } else {
          const int i = first + 8 * j, f = filter + own_filter + 8 * k + lane / 4;
          store_run(implicit_place(b, f, i, F, L), f < F ? L - i : 0, ended(j, k), ended(j + 1, k));
        }
      }
  };

  const int start = patch * SPAN, parts = min(TILES, (L - start + TILE - 1) / TILE) * CHUNKS;
  if (threadIdx.x < STAGES) {
    implicit_barrier(full(threadIdx.x), 2 * STAGERS);
    implicit_barrier(empty(threadIdx.x), 4 * (TURNS ? GROUPS_F : GROUPS));
    implicit_publish();
  }
  __syncthreads();
  if (stages) {
@FEWER@
    const bool copies = WIDE_ROWS && wide_rows;
    auto first_of = [&](int part) { return start + part / CHUNKS * TILE; };
    auto stage_part = [&](word (&mine)[HELD][8], word (&next)[HELD][8], int part) {
      const int stage = part % STAGES, chunk = part % CHUNKS;
      if (!copies && part + 1 < parts) fetch_held(next, 0, first_of(part + 1), (part + 1) % CHUNKS);
      if (part >= STAGES) implicit_await(empty(stage), part / STAGES % 2 ^ 1);
      if (!TURNS) copy_weights(raw_of(stage), chunk, thread, STAGERS);
      if (copies) {
        copy_rows(window_of(stage), first_of(part), chunk);
      } else {
        put_held(mine, window_of(stage), 0);
#pragma unroll 1
        for (int more = HELD * STAGERS; more < ITEMS; more += HELD * STAGERS) {
          fetch_held(mine, more, first_of(part), chunk);
          put_held(mine, window_of(stage), more);
        }
      }
      implicit_publish();
      implicit_arrive(full(stage));
      implicit_arrive_copied(full(stage));
    };
    if (!copies) fetch_held(held[0], 0, start, 0);
#pragma unroll 1
    for (int part = 0; part < parts; part += 2) {
      stage_part(held[0], held[1], part);
      if (part + 1 < parts) stage_part(held[1], held[0], part + 1);
    }
    return;
  }
@MORE@
  if (TURNS) {
    copy_weights(raw_of(0), 0, threadIdx.x, 128 * GROUPS);
    implicit_copied();
    implicit_meet();
    pack(raw_of(0));
  }
#pragma unroll 1
  for (int part = TURNS ? group_i : 0; part < parts; part += TURNS ? GROUPS_I : 1) {
    const int stage = part % STAGES, chunk = part % CHUNKS;
    implicit_await(full(stage), part / STAGES % 2);
    if (!TURNS) pack(raw_of(stage));
    multiply(window_of(stage), chunk > 0);
    implicit_finish(sum);
    __syncwarp();
    if (lane == 0) implicit_arrive(empty(stage));
    if (chunk == CHUNKS - 1) store(start + part / CHUNKS * TILE + (TURNS ? 0 : COLUMNS * NEIGHBOURS * group_i));
  }
}
