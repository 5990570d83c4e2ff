// Depthwise convolution with long kernels on tensor cores, channels last. A block has eight channels, which are a
// vector of 16 bytes at each position. While it stages them it transposes them into a plane for each channel. A row of
// taps is then a product of rows of the plane and a Toeplitz matrix, T[v, j] = w[ky, v - j], as in toeplitz.cu: a block
// of T, of eight columns v by eight outputs j, depends only on their distance. Results are transposed back in shared
// memory.
//
// A fragment of 16 rows has FRAGMENT_ROWS output rows of each of 16 / FRAGMENT_ROWS images. A warp has one channel and
// GROUPS fragments below each other, which are 8 * TILES columns wide. ROW_WARPS warps below each other share a
// channel. A block repeats this for WALKS sets of images, and stages the taps once for all of them.
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@;
constexpr int KERNEL = @KERNEL@, KW = @KW@;  // taps of a channel, and of a row of them
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@, FIRST = @FIRST@;  // used taps: those that meet the input somewhere
constexpr int TOP = @TOP@, LEFT = @LEFT@;  // rows and columns from the first used tap to the output's own element
constexpr int FRAGMENT_ROWS = @FRAGMENT_ROWS@, GROUPS = @GROUPS@, ROW_WARPS = @ROW_WARPS@, TILES = @COLUMN_TILES@;
constexpr int WALKS = @WALKS@, CHANNELS = 8, THREADS = 32 * CHANNELS * ROW_WARPS, IMAGES = 16 / FRAGMENT_ROWS;
constexpr int STRIP = FRAGMENT_ROWS * GROUPS * ROW_WARPS, WIDTH = 8 * TILES;  // outputs of a block
constexpr int DOWN = (HO + STRIP - 1) / STRIP, ACROSS = (WO + WIDTH - 1) / WIDTH;

// Chunks of eight input columns: DISTANCES of them meet a tile of outputs, CHUNKS are a block's.
constexpr int DISTANCES = (TAPS_W + 14) / 8, CHUNKS = TILES + DISTANCES - 1, STEPS = (CHUNKS + 1) / 2;
constexpr int NEEDED_ROWS = STRIP + TAPS_H - 1, ROWS = NEEDED_ROWS < H ? NEEDED_ROWS : H;
constexpr int PITCH = (CHUNKS | 1) * 16;  // an odd number of vectors, so that eight rows lie in different banks
constexpr int IMAGE = ROWS * PITCH, PLANE = IMAGES * IMAGE, ZEROS = PITCH + 112;  // a row of zeros, from any bank on
constexpr int RESULT_ROW = (WIDTH + 1) * 16, RESULTS = IMAGES * STRIP * RESULT_ROW;  // they overwrite the planes
constexpr int TAP_ROW = 4 * DISTANCES + 5;  // words, with zeros on both sides
constexpr int TAP_BYTES = (CHANNELS * TAPS_H * TAP_ROW + 3) / 4 * 16;
static_assert((TAP_BYTES + ZEROS + (CHANNELS * PLANE > RESULTS ? CHANNELS * PLANE : RESULTS)) / 4 == @WORDS@,
              "the template's estimate of shared memory");

// Loads eight channels of a position, or zeros if `inside` is false.
__device__ __forceinline__ uint4 planes_fetch(const char* from, bool inside, bool aligned) {
  word v[4] = {};
  if (aligned) {
    element_fetch<16>(v, from, inside);
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      word one[1];
      element_fetch<SIZE>(one, from + e * SIZE, inside);
      v[e / 2] |= one[0] << 16 * (e % 2);
    }
  }
  return make_uint4(v[0], v[1], v[2], v[3]);
}

__device__ __forceinline__ void depthwise_channels_planes(const void* __restrict__ x_any,
                                                          const void* __restrict__ w_any, @ADDED@
                                                          void* __restrict__ y_any, word* shared) {
  const char *const x = (const char*)x_any, *const residual_of = (const char*)@RESIDUAL@;
  char* const y = (char*)y_any;
  word* const taps = shared;
  char *const zeros = (char*)shared + TAP_BYTES, *const planes = zeros + ZEROS;
  const int thread = threadIdx.x, lane = thread % 32, own = thread / 32 % CHANNELS, part = thread / 32 / CHANNELS;
  const int c_first = blockIdx.x % (C / CHANNELS) * CHANNELS, rest = blockIdx.x / (C / CHANNELS);
  const int j_first = rest % ACROSS * WIDTH, i_first = rest / ACROSS % DOWN * STRIP;
  const int u_first = max(0, i_first - TOP);  // the first input row that is staged
  const int b_begin = rest / ACROSS / DOWN * (WALKS * IMAGES), b_end = min(b_begin + WALKS * IMAGES, B);
  const bool aligned = (((size_t)x | (size_t)y) & 15) == 0;

  for (int i = thread; i < ZEROS / 4; i += THREADS) ((word*)zeros)[i] = 0;
  const unsigned short* const w = (const unsigned short*)w_any + (long long)c_first * KERNEL;
  for (int unit = thread; unit < CHANNELS * TAPS_H * TAP_ROW; unit += THREADS) {
    const int kx = unit % TAP_ROW * 2 - 8, ky = unit / TAP_ROW % TAPS_H, c = unit / TAP_ROW / TAPS_H;
    const int tap = FIRST + ky * KW + kx;
    const unsigned short* const from = w + c * KERNEL + (@FLIP@ ? KERNEL - 1 - tap : tap);
    taps[unit] = ((word)kx < TAPS_W ? from[0] : 0) | (word)((word)(kx + 1) < TAPS_W ? from[@FLIP@ ? -1 : 1] : 0) << 16;
  }

  // The warp's output rows and the rows of taps that meet the plane for them; the address of this lane's row of the
  // first fragment at the first row of taps; and this lane's column of T.
  const int i_low = i_first + part * (GROUPS * FRAGMENT_ROWS), i_high = min(i_low + GROUPS * FRAGMENT_ROWS, HO) - 1;
  const int from = max(0, TOP - i_high), to = i_low < HO ? min(TAPS_H, H + TOP - i_low) : 0;
  const word second = lane / 16 * 16, zero_row = (word)__cvta_generic_to_shared(zeros) + second;
  const word image_rows = (word)__cvta_generic_to_shared(planes) + own * PLANE + lane % 16 / FRAGMENT_ROWS * IMAGE + second;
  const int first_row = i_low + lane % FRAGMENT_ROWS - TOP - u_first;
  const int pair = 8 + lane % 4 * 2 - lane / 4;
  const word* const column = taps + own * (TAPS_H * TAP_ROW) + pair / 2;
  const float bias_of = epilogue_bias(@BIAS@, c_first + own);

#pragma unroll 1
  for (int b_first = b_begin; b_first < b_end; b_first += IMAGES) {
    __syncthreads();  // the previous results are stored
#pragma unroll 4
    for (int unit = thread; unit < IMAGES * ROWS * CHUNKS * 4; unit += THREADS) {  // two columns
      const int place = unit % (CHUNKS * 4), row = unit / (CHUNKS * 4) % ROWS, image = unit / (CHUNKS * 4) / ROWS;
      const int b = b_first + image, u = u_first + row, v = j_first - LEFT + 2 * place;
      const char* const at = x + (((long long)(min(b, B - 1) * H + u) * W + v) * C + c_first) * SIZE;
      const bool inside = b < b_end && u < H;
      const uint4 p = planes_fetch(at, inside && (word)v < W, aligned);
      const uint4 q = planes_fetch(at + C * SIZE, inside && (word)(v + 1) < W, aligned);
      const word left[4] = {p.x, p.y, p.z, p.w}, right[4] = {q.x, q.y, q.z, q.w};
      char* const to = planes + image * IMAGE + row * PITCH + place * 4;
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c)
        *(word*)(to + c * PLANE) = __byte_perm(left[c / 2], right[c / 2], c % 2 ? 0x7632 : 0x5410);
    }
    __syncthreads();

    float sums[GROUPS][TILES][4] = {};
#pragma unroll 1
    for (int ky = from; ky < to; ++ky) {
      word t[DISTANCES];
#pragma unroll
      for (int q = 0; q < DISTANCES; ++q)
        t[q] = __funnelshift_r(column[ky * TAP_ROW + 4 * q], column[ky * TAP_ROW + 4 * q + 1], pair % 2 * 16);
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) {
        const int row = first_row + g * FRAGMENT_ROWS + ky;
        const word address = image_rows + row * PITCH;
        const word start = (word)row < ROWS ? address : zero_row + ((address - zero_row) & 112);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
          word a[4];
          if (2 * step + 1 < CHUNKS) halves_rows(a, start + 32 * step);
          else halves_half_rows(a, start + 32 * step);
#pragma unroll
          for (int tile = 0; tile < TILES; ++tile) {
            const int q = 2 * step - tile;
            const bool low = q >= 0 && q < DISTANCES, high = q >= -1 && q + 1 < DISTANCES && 2 * step + 1 < CHUNKS;
            if (low && high) halves_multiply(sums[g][tile], a, t[low ? q : 0], t[high ? q + 1 : 0]);
            else if (low) halves_multiply_half(sums[g][tile], a[0], a[1], t[low ? q : 0]);
            else if (high) halves_multiply_half(sums[g][tile], a[2], a[3], t[high ? q + 1 : 0]);
          }
        }
      }
    }
    __syncthreads();  // no warp reads the planes any more

#pragma unroll
    for (int run = 0; run < 2 * GROUPS * TILES; ++run) {  // two neighbouring columns
      const int row = lane / 4 + run % 2 * 8, image = row / FRAGMENT_ROWS, tile = run / 2 % TILES;
      const int i = (part * GROUPS + run / 2 / TILES) * FRAGMENT_ROWS + row % FRAGMENT_ROWS, j = tile * 8 + lane % 4 * 2;
      float v[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        v[e] = sums[run / 2 / TILES][tile][run % 2 * 2 + e] + bias_of;
        if (HAS_RESIDUAL && b_first + image < b_end && i_first + i < HO && j_first + j + e < WO)
          v[e] += element_load(residual_of, (((long long)(b_first + image) * HO + i_first + i) * WO + j_first + j + e) * C +
                                                c_first + own);
      }
      const word packed = epilogue_pack(v[0], v[1]);
      char* const to = planes + (image * STRIP + i) * RESULT_ROW + j * 16 + own * SIZE;
      *(unsigned short*)to = (unsigned short)packed;
      *(unsigned short*)(to + 16) = (unsigned short)(packed >> 16);
    }
    __syncthreads();
#pragma unroll 2
    for (int unit = thread; unit < IMAGES * STRIP * WIDTH; unit += THREADS) {
      const int j = unit % WIDTH, i = unit / WIDTH % STRIP, image = unit / WIDTH / STRIP;
      if (b_first + image >= b_end || i_first + i >= HO || j_first + j >= WO) continue;
      const uint4 v = *(const uint4*)(planes + (image * STRIP + i) * RESULT_ROW + j * 16);
      const word packed[4] = {v.x, v.y, v.z, v.w};
      char* const to =
          y + ((((long long)(b_first + image) * HO + i_first + i) * WO + j_first + j) * C + c_first) * SIZE;
      if (aligned) {
        element_put<16>(to, packed);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const word one[1] = {packed[e / 2] >> 16 * (e % 2)};
          element_put<SIZE>(to + e * SIZE, one);
        }
      }
    }
  }
}
