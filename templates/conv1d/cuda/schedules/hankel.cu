// Channels apart as matrix products on tensor cores: O[a, o] = sum over j of X[a, j] T[j, o]. Row a is one of 16
// segments of WIDTH outputs o. X is a Hankel matrix, whose rows overlap: X[a, j] = x[begin of a + j]. T is a Toeplitz
// matrix: T[j, o] = w[j - o - pad]. The segments of a channel are numbered through all its rows, so that short rows
// leave no lane idle.
//
// The order of j and of o within a product is free. It is such that the samples that a lane reads are neighbours, and
// so are the outputs that it writes: vectors go straight from memory to registers and back. A warp keeps T for TILES
// tiles of 16 segments, STAGES of which are being loaded.
constexpr bool FLIP = @FLIP@, NEXT = @NEXT@;             // NEXT: the next launch may begin early
constexpr int B = @B@, C = @C@, F = @F@, SEVERAL = @SEVERAL@, M = @M@, L = @L@, N = @N@, LEFT = @LEFT@;
constexpr int WIDTH = @WIDTH@, TILES = @TILES@, STAGES = @STAGES@, WARPS = @WARPS@;
constexpr int V = @V@, VO = @VO@;                        // elements of a vector of the input and of the output
constexpr int TAKEN = V > 4 ? V : 4, GIVEN = WIDTH / 4;  // neighbouring samples and outputs of a lane
constexpr int PARTS = @PARTS@;                           // parts of 4 TAKEN samples along j
constexpr int COLUMNS = WIDTH / 8;                       // products side by side
constexpr int PAIRS = TAKEN / 2 + COLUMNS - 1;           // pairs of taps that these products meet in a part
constexpr int SEGMENTS = @SEGMENTS@;                     // segments of a row
constexpr int COUNT = (B * SEGMENTS + 15) / 16;          // tiles of a channel
constexpr int RUNS = (COUNT + TILES - 1) / TILES;        // warps of a channel
constexpr int BEYOND = 1 << 28;                          // a place behind the end of any row
static_assert((long long)C * M % V == 0 && (long long)F * L % VO == 0 && GIVEN % VO == 0, "whole vectors");

constexpr int hankel_words(int elements, int vector) { return vector == 1 ? elements : elements / 2; }

// Returns how many neighbours in a vector are always in the same row.
constexpr int hankel_piece(int extent, int vector) {
  return extent % vector == 0 ? vector : hankel_piece(extent, vector / 2);
}

// Loads a lane's vectors that have an element in the row. A vector may reach into the next row, but not out of the
// tensor.
template <int EXTENT, int VECTOR, int WORDS>
__device__ __forceinline__ void hankel_fetch(word (&raw)[WORDS], const char* from, int at) {
#pragma unroll
  for (int i = 0; i < WORDS; i += element_words(VECTOR)) {
    const int e = VECTOR == 1 ? i : 2 * i;
    const bool meets = (unsigned)(at + e + VECTOR - 1) < (unsigned)(EXTENT + VECTOR - 1);
    element_fetch<VECTOR * SIZE>(raw + i, from + e * SIZE, meets);
  }
}

// Returns elements 2 i and 2 i + 1 as a pair, with zeros for those that are not in the row. They are masked only here,
// where they are used, because masking them earlier would wait for the load.
template <int EXTENT, int VECTOR, int WORDS>
__device__ __forceinline__ word hankel_pair(const word (&raw)[WORDS], int i, int at) {
  constexpr int PIECE = hankel_piece(EXTENT, VECTOR);
  if constexpr (VECTOR == 1) return raw[2 * i] | raw[2 * i + 1] << 16;
  const bool low = (unsigned)(at + 2 * i) < (unsigned)EXTENT, high = (unsigned)(at + 2 * i + 1) < (unsigned)EXTENT;
  if constexpr (PIECE == VECTOR) return raw[i];
  else if constexpr (PIECE > 1) return low ? raw[i] : 0;
  else return raw[i] & ((low ? 0xffffu : 0) | (high ? 0xffff0000u : 0));
}

__device__ __forceinline__ void hankel_store(char* to, const float (&v)[GIVEN], int at) {
  constexpr int PIECE = hankel_piece(L, VO);
  word packed[GIVEN / 2];
#pragma unroll
  for (int i = 0; i < GIVEN / 2; ++i) packed[i] = element_pack(v[2 * i], v[2 * i + 1]);
#pragma unroll
  for (int e = 0; e < GIVEN; e += VO)
    if (VO > 1 && at + e >= 0 && at + e + VO <= L) {
      element_put<VO * SIZE>(to + e * SIZE, packed + e / 2);
    } else if (PIECE < VO || VO == 1) {
#pragma unroll
      for (int p = e; p < e + VO; p += PIECE) {
        const word first = packed[p / 2] >> 16 * (p % 2);
        if ((unsigned)(at + p) < (unsigned)L)
          element_put<PIECE * SIZE>(to + p * SIZE, PIECE > 1 ? packed + p / 2 : &first);
      }
    }
}

// Computes tiles [tile, last) of channel f.
__device__ __forceinline__ void hankel_tiles(const char* x, const char* w, float offset, const char* residual, char* y,
                                             int f, int tile, int last) {
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4, c = f / SEVERAL;
  // If the row begins within a vector, the first segment begins before the row, where the vector does.
  const int shift = f * L & (VO - 1), pad = (c * M - shift - LEFT) & (V - 1);
  const int inside = TAKEN * quad - LEFT - pad, outside = GIVEN * quad;
  word operand[STAGES][2][PARTS][hankel_words(TAKEN, V)], added[STAGES][2][HAS_RESIDUAL ? hankel_words(GIVEN, VO) : 1];
  int signal[STAGES][2], begin[STAGES][2];  // of the lane's segments: the signal, and the begin in its row

  auto fetch = [&](int slot, int tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned segment = 16 * tile + 8 * half + row;
      const int b = segment / SEGMENTS, at = segment % SEGMENTS * WIDTH - shift;
      signal[slot][half] = b, begin[slot][half] = b < B ? at : BEYOND;
      const char* const from = x + ((long long)(b * C + c) * M + at + inside) * SIZE;
#pragma unroll
      for (int j = 0; j < PARTS; ++j) {
        const int on = 4 * TAKEN * j;
        hankel_fetch<M, V>(operand[slot][half][j], from + on * SIZE, begin[slot][half] + inside + on);
      }
      if (HAS_RESIDUAL)
        hankel_fetch<L, VO>(added[slot][half], residual + ((long long)(b * F + f) * L + at + outside) * SIZE,
                            begin[slot][half] + outside);
    }
  };

#pragma unroll
  for (int t = 0; t < STAGES; ++t)
    if (tile + t < last) fetch(t, tile + t);
  // Column n of product i is output n / 2 * GIVEN + 2 i + n % 2, so that a lane's columns are neighbours. At pair k,
  // product i meets the taps that product 0 meets at pair k - i.
  word taps[PARTS][PAIRS];
  const int near = TAKEN * quad - row / 2 * GIVEN - row % 2 - pad - 2 * (COLUMNS - 1);
  const char* const nearest = w + (f * N + (FLIP ? N - 1 - near : near)) * (long long)SIZE;
#pragma unroll
  for (int j = 0; j < PARTS; ++j)
#pragma unroll
    for (int k = 0; k < PAIRS; ++k) {
      word pair[2][1];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int on = 4 * TAKEN * j + 2 * k + e;
        element_fetch<SIZE>(pair[e], nearest + (FLIP ? -on : on) * SIZE, (unsigned)(near + on) < N);
      }
      taps[j][k] = pair[0][0] | pair[1][0] << 16;
    }
  if (NEXT) begin_next_launch();

#pragma unroll 1
  for (; tile < last; tile += STAGES)
#pragma unroll
    for (int t = 0; t < STAGES; ++t)
      if (t == 0 || tile + t < last) {
        float sum[COLUMNS][4] = {};
#pragma unroll
        for (int j = 0; j < PARTS; ++j)
#pragma unroll
          for (int k = 0; k < TAKEN / 2; k += 2) {
            word a[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
              a[e] = hankel_pair<M, V>(operand[t][e % 2][j], k + e / 2, begin[t][e % 2] + inside + 4 * TAKEN * j);
#pragma unroll
            for (int i = 0; i < COLUMNS; ++i)
              halves_multiply(sum[i], a, taps[j][COLUMNS - 1 - i + k], taps[j][COLUMNS - i + k]);
          }
        float v[2][GIVEN];
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int o = 0; o < GIVEN; ++o) {
            v[half][o] = sum[o / 2][2 * half + o % 2];
            if (HAS_BIAS) v[half][o] += offset;
            if (HAS_RESIDUAL) {
              const word pair = hankel_pair<VO, VO>(added[t][half], o / 2, 0);  // unmasked: outside is never stored
              v[half][o] += element_at(&pair, o % 2);
            }
          }
        const int b[2] = {signal[t][0], signal[t][1]}, at[2] = {begin[t][0] + outside, begin[t][1] + outside};
        if (tile + t + STAGES < last) fetch(t, tile + t + STAGES);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int o = 0; o < GIVEN; ++o) v[half][o] = epilogue_activation(v[half][o]);
          hankel_store(y + ((long long)(b[half] * F + f) * L + at[half]) * SIZE, v[half], at[half]);
        }
      }
}

// Computes one output after the other, for tensors that do not start at a vector's boundary.
__device__ __forceinline__ void hankel_plain(const char* x, const char* w, float offset, const char* residual, char* y,
                                             int f, int run) {
#pragma unroll 1
  for (unsigned each = 32 * run + threadIdx.x % 32; each < (unsigned)B * L; each += 32 * RUNS) {
    const int b = each / L, i = each % L;
    const long long row = (long long)(b * C + f / SEVERAL) * M, out = (long long)(b * F + f) * L + i;
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < N; ++t) {
      const int at = i + t - LEFT;
      const int place = f * N + (FLIP ? N - 1 - t : t);
      if (at >= 0 && at < M) sum = fmaf(element_load(x, row + at), element_load(w, place), sum);
    }
    epilogue_finish<1>(&sum, offset, residual + out * SIZE);
    element_store<1>(y + out * SIZE, &sum);
  }
}

__device__ __forceinline__ void conv1d_hankel(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                              void* __restrict__ y) {
  const int warp = blockIdx.x * WARPS + threadIdx.x / 32;
  if (F * RUNS % WARPS != 0 && warp >= F * RUNS) return;
  // Neighbouring warps have neighbouring channels, so that neighbours in memory are used at the same time.
  const int f = warp % F, run = warp / F, first = run * TILES;
  const char* const residual_of = (const char*)@RESIDUAL@;
  const float offset = epilogue_bias(@BIAS@, f);
  const size_t outside = (size_t)y | (size_t)residual_of;
  if (((size_t)x & (V * SIZE - 1)) == 0 && (outside & (VO * SIZE - 1)) == 0)
    hankel_tiles((const char*)x, (const char*)w, offset, residual_of, (char*)y, f, first, min(first + TILES, COUNT));
  else
    hankel_plain((const char*)x, (const char*)w, offset, residual_of, (char*)y, f, run);
}
