// The output as a matrix product: O[a, b] = y[8 a + b] = sum over j of X[a, j] T[j, b]. X[a, j] = x[8 a + j] is a
// Hankel matrix: its rows overlap, so shared memory holds x once. T[j, b] = w[j - b] is a Toeplitz matrix of eight
// columns, one n8 tile of the tensor cores. A step of 128 along j moves the view of x by exactly one tile of 16 rows.
// For each residue of j modulo 128, the fragments of X therefore slide through registers, and a new fragment serves MT
// products.
//
// For the accuracy of float32, x and w are split into a high and a low half, and three products of halves are summed in
// float32.
constexpr int WARPS = @WARPS@, MT = @ROW_TILES@, PRODUCTS = @PRODUCTS@;
constexpr int M = @M@, N = @N@, L = @L@, LEFT = @LEFT@, CHUNK = @TAPS_PER_CHUNK@;
constexpr bool FLIP = @FLIP@, HALF_IO = @HALF_IO@;
constexpr int THREADS = 32 * WARPS, TILE = 128 * WARPS * MT;
constexpr int STEPS = (CHUNK + 7 + 15) / 16;           // steps of 16 along j
constexpr int X_WINDOW = TILE + 16 * STEPS;            // samples that a tile and a chunk of taps meet
constexpr int W_WINDOW = 16 * STEPS + 16;              // taps with zeros on both sides
constexpr int QUAD_BYTES = HALF_IO ? 8 : 16;
constexpr int X_QUADS = (X_WINDOW / 4 + THREADS - 1) / THREADS;  // quads of a thread
constexpr int W_QUADS = (W_WINDOW / 4 + THREADS - 1) / THREADS;
constexpr int W_PITCH = (W_WINDOW / 2 + 63) / 32 * 32 + 8;  // words; the copies are 8 banks apart
constexpr int HALVES = PRODUCTS == 3 ? 2 : 1;
static_assert(HALVES * (X_WINDOW / 2 + 2 * W_PITCH) + 2 == @WORDS@, "the template's estimate of shared memory");

__device__ __forceinline__ float conv1d_load(const void* from, int place) {
  return HALF_IO ? halves_widen(((const unsigned short*)from)[place]) : ((const float*)from)[place];
}

__device__ __forceinline__ void conv1d_toeplitz(const void* __restrict__ x, const void* __restrict__ w, float bias,
                                                const char* residual, void* __restrict__ y, word* shared) {
  word* const x_high = shared;
  word* const x_low = x_high + X_WINDOW / 2;
  word* const w_high = x_high + HALVES * (X_WINDOW / 2);  // followed by its odd copy, which is one element further on
  word* const w_low = w_high + 2 * W_PITCH;
  word* const slots = w_high + HALVES * 2 * W_PITCH;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int first = conv1d_block() * TILE;

  float total[MT][4];
#pragma unroll
  for (int r = 0; r < MT; ++r)
#pragma unroll
    for (int i = 0; i < 4; ++i) total[r][i] = 0.0f;

#pragma unroll 1
  for (int start = 0; start < N; start += CHUNK) {
    // Stage: first all loads, then the scale, then the halves.
    float vx[X_QUADS][4], vw[W_QUADS][5];
    const int origin = first + start - LEFT;
    const char* const window = (const char*)x + (long long)origin * (QUAD_BYTES / 4);
    if (origin >= 0 && origin + X_WINDOW <= M && (size_t)window % QUAD_BYTES == 0) {
#pragma unroll
      for (int i = 0; i < X_QUADS; ++i) {
        const int quad = i * THREADS + thread;
        if (HALF_IO) {
          const uint2 v = quad < X_WINDOW / 4 ? ((const uint2*)window)[quad] : make_uint2(0, 0);
          vx[i][0] = halves_widen(v.x & 0xffff), vx[i][1] = halves_widen(v.x >> 16);
          vx[i][2] = halves_widen(v.y & 0xffff), vx[i][3] = halves_widen(v.y >> 16);
        } else {
          const float4 v = quad < X_WINDOW / 4 ? ((const float4*)window)[quad] : make_float4(0, 0, 0, 0);
          vx[i][0] = v.x, vx[i][1] = v.y, vx[i][2] = v.z, vx[i][3] = v.w;
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < X_QUADS; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int place = 4 * (i * THREADS + thread) + e, source = origin + place;
          vx[i][e] = place < X_WINDOW && source >= 0 && source < M ? conv1d_load(x, source) : 0.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < W_QUADS; ++i)
#pragma unroll
      for (int e = 0; e < 5; ++e) {
        const int tap = 4 * (i * THREADS + thread) + e - 8;
        const bool inside = tap >= 0 && tap < CHUNK && start + tap < N;
        vw[i][e] = inside ? conv1d_load(w, FLIP ? N - 1 - (start + tap) : start + tap) : 0.0f;
      }
    float undo_x = 1.0f, undo_w = 1.0f;
#if @SCALED@
    if (thread < 2) slots[thread] = 0;
    float largest_x = 0.0f, largest_w = 0.0f;
#pragma unroll
    for (int i = 0; i < X_QUADS; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) largest_x = fmaxf(largest_x, fabsf(vx[i][e]));
#pragma unroll
    for (int i = 0; i < W_QUADS; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) largest_w = fmaxf(largest_w, fabsf(vw[i][e]));
    const word bits_x = halves_warp_max(__float_as_uint(largest_x));
    const word bits_w = halves_warp_max(__float_as_uint(largest_w));
    __syncthreads();
    if (lane == 0) atomicMax(slots, bits_x), atomicMax(slots + 1, bits_w);
    __syncthreads();
    const int ex = halves_exponent(slots[0]), ew = halves_exponent(slots[1]);
    const float scale_x = halves_power(ex), scale_w = halves_power(ew);
    undo_x = halves_power(-ex), undo_w = halves_power(-ew);  // one after the other, as their product may underflow
#pragma unroll
    for (int i = 0; i < X_QUADS; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) vx[i][e] *= scale_x;
#pragma unroll
    for (int i = 0; i < W_QUADS; ++i)
#pragma unroll
      for (int e = 0; e < 5; ++e) vw[i][e] *= scale_w;
#endif
#pragma unroll
    for (int i = 0; i < X_QUADS; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < X_WINDOW / 4) {
        uint2 high, low;
        halves_split(vx[i][0], vx[i][1], high.x, low.x);
        halves_split(vx[i][2], vx[i][3], high.y, low.y);
        ((uint2*)x_high)[quad] = high;
        if (PRODUCTS == 3) ((uint2*)x_low)[quad] = low;
      }
    }
#pragma unroll
    for (int i = 0; i < W_QUADS; ++i) {
      const int quad = i * THREADS + thread;
      if (quad < W_WINDOW / 4) {
        uint2 high, low;
        halves_split(vw[i][0], vw[i][1], high.x, low.x);
        halves_split(vw[i][2], vw[i][3], high.y, low.y);
        ((uint2*)w_high)[quad] = high;
        if (PRODUCTS == 3) ((uint2*)w_low)[quad] = low;
        halves_split(vw[i][1], vw[i][2], high.x, low.x);
        halves_split(vw[i][3], vw[i][4], high.y, low.y);
        ((uint2*)(w_high + W_PITCH))[quad] = high;
        if (PRODUCTS == 3) ((uint2*)(w_low + W_PITCH))[quad] = low;
      }
    }
    __syncthreads();

    // This lane's column of T is b. Its first row is 2 (lane % 4), and p is the place of that element.
    const int b = lane / 4, p = 2 * (lane % 4) - b + 8;
    const word* const column_high = w_high + (b % 2 ? W_PITCH + (p - 1) / 2 : p / 2);
    const word* const column_low = w_low + (b % 2 ? W_PITCH + (p - 1) / 2 : p / 2);
    const int row = 128 * warp * MT + 8 * (lane % 8) + 64 * (lane / 8 % 2) + 8 * (lane / 16);
    const word rows_high = (word)__cvta_generic_to_shared(x_high) + 2 * row;
    const word rows_low = (word)__cvta_generic_to_shared(x_low) + 2 * row;

#pragma unroll 1
    for (int residue = 0; residue < 8; ++residue) {
      const int count = (STEPS - residue + 7) / 8;
      float sum[MT][4];
#pragma unroll
      for (int r = 0; r < MT; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[r][i] = 0.0f;
      word high[MT][4], low[MT][4];
#pragma unroll
      for (int r = 0; r < MT - 1; ++r) {
        halves_rows(high[r], rows_high + 2 * (128 * r + 16 * residue));
        if (PRODUCTS == 3) halves_rows(low[r], rows_low + 2 * (128 * r + 16 * residue));
      }
      // Adds a step: loads a new fragment, then multiplies all fragments of the window. The compiler knows the index of
      // each fragment.
      auto step = [&](int q, int u) {
        const int fresh = (u + MT - 1) % MT, step = 8 * (8 * q + residue);
        halves_rows(high[fresh], rows_high + 2 * (128 * (q + MT - 1) + 16 * residue));
        if (PRODUCTS == 3) halves_rows(low[fresh], rows_low + 2 * (128 * (q + MT - 1) + 16 * residue));
        const word h0 = column_high[step], h1 = column_high[step + 4];
        word l0 = 0, l1 = 0;
        if (PRODUCTS == 3) l0 = column_low[step], l1 = column_low[step + 4];
#pragma unroll
        for (int r = 0; r < MT; ++r) halves_multiply(sum[r], high[(u + r) % MT], h0, h1);
        if (PRODUCTS == 3) {
#pragma unroll
          for (int r = 0; r < MT; ++r) halves_multiply(sum[r], high[(u + r) % MT], l0, l1);
#pragma unroll
          for (int r = 0; r < MT; ++r) halves_multiply(sum[r], low[(u + r) % MT], h0, h1);
        }
      };
#if @PEELED@
      int group = 0;
#pragma unroll 1
      for (; group + MT <= count; group += MT)
#pragma unroll
        for (int u = 0; u < MT; ++u) step(group + u, u);
#pragma unroll
      for (int u = 0; u < MT - 1; ++u)
        if (group + u < count) step(group + u, u);
#else
#pragma unroll 1
      for (int group = 0; group < count; group += MT)
#pragma unroll
        for (int u = 0; u < MT; ++u)
          if (group + u < count) step(group + u, u);
#endif
      // The tensor cores truncate as they add. They only add up short sums, which are added to the total with rounding.
#pragma unroll
      for (int r = 0; r < MT; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) total[r][i] = fmaf(sum[r][i] * undo_x, undo_w, total[r][i]);
    }
    __syncthreads();
  }

  const int place = first + 128 * warp * MT + 2 * lane;
  if (HAS_EPILOGUE)
    epilogue_finish_runs<2, 2 * MT>(total[0], bias, residual, [&](int run) -> epilogue_run {
      return {place + 64 * run, L - place - 64 * run};
    });
  if (HALF_IO) {
    unsigned short* const to = (unsigned short*)y;
#pragma unroll
    for (int r = 0; r < 4 * MT; ++r)
      if (place + 64 * (r / 2) + r % 2 < L) to[place + 64 * (r / 2) + r % 2] = halves_narrow(total[r / 4][r % 4]);
  } else if (first + TILE <= L && ((size_t)y & 7) == 0) {
    float* const to = (float*)y + place;
#pragma unroll
    for (int r = 0; r < 2 * MT; ++r)
      *(float2*)(to + 64 * r) = make_float2(total[r / 2][r % 2 * 2], total[r / 2][r % 2 * 2 + 1]);
  } else {
    float* const to = (float*)y;
#pragma unroll
    for (int r = 0; r < 4 * MT; ++r)
      if (place + 64 * (r / 2) + r % 2 < L) to[place + 64 * (r / 2) + r % 2] = total[r / 4][r % 4];
  }
}
