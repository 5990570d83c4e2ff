// Signals of a channel that share a long kernel. A signal is BLOCKS blocks of BLOCK samples, and is transformed over
// its blocks. At each frequency k, the BLOCK values of a signal then meet one BLOCK by BLOCK matrix of the taps'
// spectrum, T_k[row - column]. All three steps, the transform, this product and the inverse transform, are products of
// matrices in half precision, summed in float32, and what is between them stays in shared memory.
//
// A real polynomial in X modulo X^(2 BLOCKS) + 1 is known by its values at the 4 BLOCKS-th roots of unity z_k, at (k +
// 1/4) / BLOCKS turns. If a signal and taps of BLOCKS blocks wrap around, they do so into the imaginary part of the
// inverse transform, which is left out. If blocks are counted from 1/2, cosines and sines are mirror images of each
// other. Let C and S be a signal's sums with cosines and with sines. Then P = C + S and Q = C - S are even and odd in
// the blocks, so that half of a table serves either. (P + iQ) T is of the same form.
//
// If a signal's mean is large, its transform is subtracted from the signal's. The mean's share of an output is the mean
// times the sum of all taps up to one, and these sums are exact.
constexpr int SAMPLES = BLOCKS * BLOCK, TURNS = @ITEMS@, GROUP_BYTES = BLOCKS * 128;
constexpr int COEFFICIENTS_AT = 4 * GROUP_BYTES, TABLES_AT = COEFFICIENTS_AT + 8 * GROUP_BYTES;
constexpr int NUMBERS_AT = TABLES_AT + 2 * 64 * BLOCKS * 2;
constexpr int SIGNAL_GROUPS = (B + SIGNALS - 1) / SIGNALS, ITEMS = F * SIGNAL_GROUPS;
constexpr int USED = M < SAMPLES ? M : SAMPLES;
constexpr int BYTES = NUMBERS_AT + 4 * (2 * 16 * EACH + 3 * SIGNALS);
static_assert(1024 + BYTES <= 4 * @WORDS@, "the template's estimate of shared memory");

__device__ __forceinline__ void conv1d_signals_fourier(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                       void* __restrict__ y, void* __restrict__ workspace,
                                                       word* unaligned) {
  const word shared = ((word)__cvta_generic_to_shared(unaligned) + 1023) & ~1023u;
  char* const memory = (char*)unaligned + (shared - (word)__cvta_generic_to_shared(unaligned));
  float* const numbers = (float*)(memory + NUMBERS_AT);
  float *const sums = numbers, *const largest = sums + 16 * EACH;  // sums, largest values of a warp's samples
  float *const means = largest + 16 * EACH, *const scales = means + SIGNALS, *const factors = scales + SIGNALS;
  int thread = threadIdx.x;

  // A warpgroup copies the samples of EACH signals, of which a line has a block each. each_piece goes over the pieces
  // that a thread copies.
  const bool copied = M % 8 == 0 && (size_t)x % 16 == 0;
  auto each_piece = [&](auto&& of) {
#pragma unroll
    for (int piece = 0; piece < 8; ++piece) {
      const int block = piece * 16 + thread % 128 / 8, octet = thread % 8;
      of(block * BLOCK + octet % CHUNKS * 8, thread / 128 * GROUP_BYTES + block * 128 + (octet ^ block % 8) * 16);
    }
  };
  auto load = [&](int item) {
    const int f = item / SIGNAL_GROUPS, of = thread / 128 * EACH + thread % 8 / CHUNKS;
    const int signal = item % SIGNAL_GROUPS * SIGNALS + of;
    const char* const from = (const char*)x + ((long long)signal * C + f / SEVERAL) * M * SIZE;
    each_piece([&](int sample, int to) {
      const int left = signal < B && item < ITEMS ? min(max(USED - sample, 0), 8) : 0;
      if (copied) {
        copy_begin(shared + to, left ? from + sample * SIZE : (const char*)x, SIZE * left);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          word v[1];
          element_fetch<SIZE>(v, from + (sample + e) * SIZE, e < left);
          ((unsigned short*)(memory + to))[e] = (unsigned short)v[0];
        }
      }
    });
  };
  const int first = blockIdx.x * TURNS;
  load(first);

  // The table of the inverse transform.
#pragma unroll 1
  for (int pair = thread; pair < 64 * BLOCKS / 2; pair += 512) {
    const int j = pair / (BLOCKS / 2), k = pair % (BLOCKS / 2) * 2;
    char* const to = memory + TABLES_AT + k / 64 * 8192 + j * 128 + (k % 64 / 8 ^ j % 8) * 16 + k % 8 * 2;
    *(word*)to = half_pack(fourier_table<true>(k, j), fourier_table<true>(k + 1, j));
    *(word*)(to + 128 * BLOCKS) = half_pack(fourier_table<false>(k, j), fourier_table<false>(k + 1, j));
  }

  // Descriptors: addresses and strides in units of 16 bytes; eight lines of 128 bytes are swizzled.
  const descriptor lines_at = (64ull << 16) | (64ull << 32) | (1ull << 62);
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn) {
    const int item = first + turn, f = item / SIGNAL_GROUPS, signal = item % SIGNAL_GROUPS * SIGNALS;
    if (item >= ITEMS) return;
    // What depends on `thread` is computed again in each turn: kept over all turns, it would take more registers than
    // there are.
    asm volatile("" : "+r"(thread));
    const int warp = thread / 32, group = warp / 4, lane = thread % 32;
    const int line = lane / 4, quarter = lane % 4, row = warp % 4 * 16 + line;

    // The table of the forward transform, and the sums of its rows.
    word there[BLOCKS / 16][4];
    const word* const table = (const word*)workspace + TABLE_AT;
#pragma unroll
    for (int step = 0; step < BLOCKS / 16; ++step)
      element_fetch<16>(there[step], (const char*)(table + (step * 512 + thread) * 4), true);
    const float2 of_mean = ((const float2*)(table + BLOCKS / 16 * 512 * 4))[thread];

    // The mean and the range of each signal.
    copy_wait();
    float sum = 0.0f;
    word mosts = 0;
    each_piece([&](int, int at) {
      const uint4 piece = *(const uint4*)(memory + at);
      const word v[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) mosts = halves_larger(mosts, v[i] & 0x7fff7fffu);
      sum += element_at(v, 0) + element_at(v, 5);  // any number near the mean will do
    });
    const word larger = max(mosts & 0xffffu, mosts >> 16);
    float most = element_at(&larger, 0);
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      if (lanes > 4 || lanes < CHUNKS) sum = lanes_sum(sum, lanes), most = lanes_largest(most, lanes);
    if (lane < 8 && lane % CHUNKS == 0) {
      sums[warp * EACH + lane / CHUNKS] = sum;
      largest[warp * EACH + lane / CHUNKS] = most;
    }
    __syncthreads();
    if (thread < SIGNALS) {
      float sum = 0.0f, most = 0.0f;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int of = (thread / EACH * 4 + i) * EACH + thread % EACH;
        sum += sums[of], most = max(most, largest[of]);
      }
      const float mean = sum * (4.0f / SAMPLES);
      const int exponent = fourier_exponent(most);
      means[thread] = 16.0f * max(mean, -mean) > most ? mean : 0.0f;
      scales[thread] = fourier_power(-exponent);
      factors[thread] = fourier_power(exponent + (int)((const float*)workspace)[EXPONENTS_AT + f] - SCALED);
    }
    publish();
    __syncthreads();
    if (IS_BF16) {  // scales samples to half precision below 1
      const float scale = scales[group * EACH + thread % 8 / CHUNKS];
      each_piece([&](int, int at) {
        const uint4 piece = *(const uint4*)(memory + at);
        word v[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = half_pack(element_at(v, 2 * i) * scale, element_at(v, 2 * i + 1) * scale);
        *(uint4*)(memory + at) = make_uint4(v[0], v[1], v[2], v[3]);
      });
      publish();
      __syncthreads();
    }

    // Forward transform: a warpgroup computes 64 rows of P or Q, from the samples of all warpgroups. While it stores the
    // sums of one warpgroup's samples, the products of the next one's go on.
    float products[2][32];
    auto begin = [&](int s) {
      matrix_begin();
      const descriptor samples_at = lines_at | (shared + s * GROUP_BYTES) >> 4;
      matrix_multiply<true>(products[s % 2], there[0], samples_at);
#pragma unroll
      for (int step = 1; step < BLOCKS / 16; ++step)
        matrix_multiply<false>(products[s % 2], there[step], samples_at + 128 * step);
      matrix_commit();
    };
    begin(0);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      if (s + 1 < 4) begin(s + 1);
      if (s + 1 < 4) matrix_wait<1>(products[s % 2]);
      else matrix_wait<0>(products[s % 2]);
      const float(&sum)[32] = products[s % 2];
      float scale[EACH], less_mean[EACH][2];  // added to the sums of the thread's two rows, it takes the mean out
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        const float mean = means[s * EACH + e] * scales[s * EACH + e];
        scale[e] = IS_BF16 ? 1.0f : scales[s * EACH + e];
        less_mean[e][0] = -mean * of_mean.x, less_mean[e][1] = -mean * of_mean.y;
      }
      const int column = 2 * s + group / 2;
      char* const to = memory + COEFFICIENTS_AT + column * GROUP_BYTES + (group % 2 * 64 + row) * 128 + 4 * quarter;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        char* const at = to + ((i ^ line ^ column) & 7) * 16;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float by = scale[i / CHUNKS], add = less_mean[i / CHUNKS][half];
          *(word*)(at + half * (8 * 128)) =
              half_pack(fmaf(sum[4 * i + 2 * half], by, add), fmaf(sum[4 * i + 2 * half + 1], by, add));
        }
      }
    }
    __syncthreads();
    if (turn + 1 < TURNS) load(item + 1);

    // The products of a frequency. P and Q of each signal are a column each, and meet the real and the imaginary part
    // of the spectrum.
    constexpr int DIAGONALS = 2 * CHUNKS - 1;
    const int diagonal = line / 2 - quarter + 3;  // of the first pair, counted in steps of 2
    const char* const spectra = (const char*)workspace + ((long long)f * BLOCKS * 4 * BLOCK +
                                                          line % 2 * 16 + diagonal % 4 * 4) * 4;
    word taps[2][2 * CHUNKS];
    auto load_taps = [&](int k) {
      const char* const of_k = spectra + (long long)k * (4 * BLOCK * 4);
#pragma unroll
      for (int part = 0; part < 2; ++part)
#pragma unroll
        for (int i = 0; i < CHUNKS / 2; ++i)
          element_fetch<16>(&taps[part][4 * i], of_k + (part * 2 * BLOCK + 32 * i) * 4, true);
    };
    load_taps(warp);
#pragma unroll 1
    for (int k = warp; k < BLOCKS; k += 16) {
      word real[DIAGONALS], imaginary[DIAGONALS], v[2][4];
#pragma unroll
      for (int i = 0; i < DIAGONALS; ++i) {
        real[i] = diagonal < 4 ? taps[0][i] : taps[0][i + 1];
        imaginary[i] = diagonal < 4 ? taps[1][i] : taps[1][i + 1];
      }
      load_taps(min(k + 16, BLOCKS - 1));
      // Lane l gives the addresses of chunks l / 8 and l / 8 + 4 of the line of column l % 8.
      const word chunk = lane / 8 ^ k ^ lane, of_k = shared + COEFFICIENTS_AT + lane % 8 * GROUP_BYTES + k * 128;
      const word at[2] = {of_k + (chunk & 7) * 16, of_k + ((chunk ^ 4) & 7) * 16};
      tile_load(v[0], at[0]);
      tile_load(v[1], at[1]);
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        float by_real[CHUNKS / 2][4] = {}, by_imaginary[CHUNKS / 2][4] = {};
        const int begin = e * CHUNKS;
#pragma unroll
        for (int c = 0; c < CHUNKS / 2; ++c)
#pragma unroll
          for (int r = 0; r < CHUNKS / 2; ++r) {
            const int at = 2 * (r - c) + CHUNKS - 1, of = begin + 2 * c;
            const word b0 = v[of / 4][of % 4], b1 = v[of / 4][of % 4 + 1];
            tile_multiply(by_real[r], real[at], real[at + 1], real[at - 1], real[at], b0, b1);
            tile_multiply(by_imaginary[r], imaginary[at], imaginary[at + 1], imaginary[at - 1], imaginary[at], b0, b1);
          }
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) {
          const float* const a = &by_real[r / 2][r % 2 * 2];
          const float* const b = &by_imaginary[r / 2][r % 2 * 2];
          v[(begin + r) / 4][(begin + r) % 4] = half_pack(a[0] - b[1], a[1] + b[0]);
        }
      }
      tile_store(at[0], v[0]);
      tile_store(at[1], v[1]);
    }
    publish();
    __syncthreads();

    // Inverse transform: a warpgroup computes its signals, blocks of the first half from P + Q, and the mirror images
    // of these from P - Q.
    float even[32], odd[32];
    matrix_begin();
#pragma unroll
    for (int step = 0; step < BLOCKS / 16; ++step) {
      const descriptor table = lines_at | (shared + TABLES_AT + step / 4 * 8192 + step % 4 * 32) >> 4;
      const descriptor from = lines_at | (shared + COEFFICIENTS_AT + 2 * group * GROUP_BYTES + step * 2048) >> 4;
      const descriptor odd_table = table + 128 * BLOCKS / 16, odd_from = from + GROUP_BYTES / 16;
      if (step == 0) matrix_multiply<true>(even, table, from), matrix_multiply<true>(odd, odd_table, odd_from);
      else matrix_multiply<false>(even, table, from), matrix_multiply<false>(odd, odd_table, odd_from);
    }
    matrix_commit();
    matrix_wait<0>(even);
    matrix_wait<0>(odd);

    const float offset = epilogue_bias(@BIAS@, f);
    const char* const residual_of = (const char*)@RESIDUAL@;
    const bool is_vector = L % 8 == 0 && ((size_t)y | (size_t)residual_of) % 16 == 0;
    const float* const prefix = (const float*)workspace + PREFIXES_AT + (long long)f * SAMPLES;
    const float factor = factors[group * EACH], mean = means[group * EACH];  // used if EACH is 1
#pragma unroll
    for (int half = 0; half < 4; ++half) {  // halves of the rows, from 2 on their mirror images
      const int j = row + half % 2 * 8, block = half < 2 ? j : BLOCKS - 1 - j;
#pragma unroll
      for (int four = 0; four < 8; four += 4) {
        asm volatile("" ::: "memory");  // or ptxas moves loads up, where they take registers
        word packed[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = four + i, chunk = at ^ 2 * group, e = group * EACH + (EACH > 1 ? chunk / CHUNKS : 0);
          const int sample = block * BLOCK + chunk % CHUNKS * 8 + 2 * quarter;
          const float scale = EACH > 1 ? factors[e] : factor, left_out = EACH > 1 ? means[e] : mean;
          float pair[2];
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const float a = even[4 * at + half % 2 * 2 + n], b = odd[4 * (at ^ 1) + half % 2 * 2 + n];
            pair[n] = (half < 2 ? a + b : a - b) * scale;
          }
          if (left_out != 0.0f) {
            const float2 upto = *(const float2*)(prefix + sample);
            pair[0] = fmaf(left_out, upto.x, pair[0]), pair[1] = fmaf(left_out, upto.y, pair[1]);
          }
          if (HAS_RESIDUAL) {
            const long long place = ((long long)(signal + e) * F + f) * L + sample;
#pragma unroll
            for (int n = 0; n < 2; ++n) {
              word added[1];
              element_fetch<SIZE>(added, residual_of + (place + n) * SIZE,
                                  signal + e < B && sample + n < L);
              pair[n] += element_at(added, 0);
            }
          }
          if (HAS_BIAS) pair[0] += offset, pair[1] += offset;
          packed[i] = element_pack(epilogue_activation(pair[0]), epilogue_activation(pair[1]));
        }
        transpose_of_four(packed, quarter);  // lane q now has chunk four + q
        const int chunk = (four + quarter) ^ 2 * group, of = signal + group * EACH + chunk / CHUNKS;
        const int to = block * BLOCK + chunk % CHUNKS * 8;
        char* const into = (char*)y + (((long long)of * F + f) * L + to) * SIZE;
        if (of < B && to < L) {
          if (is_vector) {
            element_put<16>(into, packed);
          } else {
#pragma unroll
            for (int e = 0; e < 8; ++e) {
              const word element = packed[e / 2] >> 16 * (e % 2);
              if (to + e < L) element_put<SIZE>(into + e * SIZE, &element);
            }
          }
        }
      }
    }
  }
}
