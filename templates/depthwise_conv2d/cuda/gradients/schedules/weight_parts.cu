// Returns an element of the output's gradient, times the activation's derivative.
__device__ __forceinline__ float weight_gradient(const char* g, const char* z, long long at) {
  const float v = element_load(g, at);
  return HAS_DERIVATIVE ? v * derivative_activation(element_load(z, at)) : v;
}

// Returns a place's sum for one tap, or that of the gradient itself if `is_bias`, for tensors that are not aligned to a
// vector.
__device__ __noinline__ float weight_plain(const char* x, const char* g, const char* z, int channel, int point, int part,
                                           int down, int aside, int t, int u, bool is_bias) {
  const weight_place place = weight_at(part, point, down, aside);
  float sum = 0.0f;
  if (!place.any) return sum;
#pragma unroll 1
  for (int at = weight_begin(place.range); at < weight_begin(place.range + 1); ++at) {
    const int image = at / HO * IMAGES + place.image, i = at % HO, h = i * STRIDE + t * DILATION - place.above;
#pragma unroll 1
    for (int v = 0; v < V; ++v) {
      const int j = place.column + v, w = place.left + v * STRIDE + u * DILATION;
      if (image >= B || j >= WO) continue;
      const float gradient = weight_gradient(g, z, weight_output(image, channel, i, j));
      if (is_bias) sum += gradient;
      else if ((word)h < (word)H && (word)w < (word)W)
        sum = fmaf(element_load(x, weight_input(image, channel, h, w)), gradient, sum);
    }
  }
  return sum;
}

// A block adds up the sums of all its places, AT_ONCE rows of taps at a time, as many as shared memory has room for;
// the bias counts as a row after the last one. If these are few sums, threads first add up SHARES shares of each.
constexpr int ROOM = SUM_WORDS / (PIECES * TC * CHANNELS), AT_ONCE = ROOM < TR + HAS_BIAS ? ROOM : TR + HAS_BIAS;
constexpr int FEW = AT_ONCE * TC * CHANNELS, SHARES = 1 < THREADS / FEW && THREADS / FEW < PIECES ? THREADS / FEW : PIECES;
static_assert(ROOM > 0, "the template's estimate of shared memory");

__device__ __forceinline__ void depthwise_weight_parts(const void* __restrict__ x_any,
                                                          const void* __restrict__ g_any, @GIVEN@
                                                          void* __restrict__ y, void* __restrict__ workspace,
                                                          word* shared) {
  const char *const x = (const char*)x_any, *const g = (const char*)g_any, *const z = (const char*)@SUMS@;
  const int block = blockIdx.x, first = block % (C / CHANNELS) * CHANNELS;
  const int tile = block / (C / CHANNELS) % (DOWN * ASIDE), part = block / (C / CHANNELS) / (DOWN * ASIDE);
  const int down = tile / ASIDE, aside = tile % ASIDE;
  const bool aligned = (((size_t)x | (size_t)g | (size_t)z) & (STAGED ? 15 : N * SIZE - 1)) == 0;
  weight_sums sum = {};
  if (aligned) weight_sum(sum, x, g, z, first, part, down, aside, (char*)shared);

  float* const all = (float*)shared;
  float* const to = (float*)workspace + (long long)part * SUMS * C + first;
#pragma unroll
  for (int begin = 0; begin < TR + HAS_BIAS; begin += AT_ONCE) {
#pragma unroll
    for (int t = begin; t < begin + AT_ONCE; ++t)
      if (aligned && (t < TR || (t < TR + HAS_BIAS && tile == 0)))
        weight_give(sum, t, all, (t - begin) * (TC * CHANNELS), FEW);
    __syncthreads();
    // With few sums most threads of a block would otherwise wait for the few that add.
    if (SHARES < PIECES) {
      float total = 0.0f;
      const int thread = threadIdx.x;
      if (thread < SHARES * FEW)
        for (int p = thread / FEW; p < PIECES; p += SHARES) total += all[p * FEW + thread % FEW];
      __syncthreads();
      if (thread < SHARES * FEW) all[thread] = total;
      __syncthreads();
    }
    for (int i = threadIdx.x; i < FEW; i += THREADS) {
      const int t = begin + i / (TC * CHANNELS), u = i / CHANNELS % TC, ky = down * TR + t, kx = aside * TC + u;
      const bool is_bias = t == TR;
      if (is_bias ? !HAS_BIAS || u > 0 || tile > 0 : t > TR || ky >= TAPS_H || kx >= TAPS_W) continue;
      float total = 0.0f;
      if (aligned) {
#pragma unroll
        for (int p = 0; p < SHARES; ++p) total += all[p * FEW + i];
      } else {
#pragma unroll 1
        for (int p = 0; p < POINTS; ++p)
          total += weight_plain(x, g, z, first + i % CHANNELS, p, part, down, aside, t, u, is_bias);
      }
      to[(is_bias ? TAPS_H * TAPS_W : ky * TAPS_W + kx) * C + i % CHANNELS] = total;
    }
    __syncthreads();
  }
}

// The second launch: adds up the parts. A block has 32 channels of one tap or of the bias, and a warp a slice of the
// parts.
__device__ __forceinline__ void depthwise_weight_total(const void* __restrict__ x, const void* __restrict__ g,
                                                                @GIVEN@ void* __restrict__ y,
                                                                void* __restrict__ workspace, word* shared) {
  const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, block = blockIdx.x;
  const int channel = block % ((C + 31) / 32) * 32 + lane, tap = block / ((C + 31) / 32);
  const int ky = tap / KW - FIRST_H, kx = tap % KW - FIRST_W;
  const bool is_bias = tap == KERNEL, any = is_bias || ((word)ky < (word)TAPS_H && (word)kx < (word)TAPS_W);
  const float* const from = (const float*)workspace + (is_bias ? TAPS_H * TAPS_W : ky * TAPS_W + kx) * C + channel;
  float total = 0.0f;
  if (any && channel < C)
#pragma unroll 8
    for (int part = slice; part < PARTS; part += SLICES) total += from[(long long)part * (SUMS * C)];
  float* const all = (float*)shared;
  all[threadIdx.x] = total;
  __syncthreads();
  if (slice > 0 || channel >= C) return;
#pragma unroll
  for (int s = 1; s < SLICES; ++s) total += all[s * 32 + lane];
  const int among = FLIP ? KERNEL - 1 - tap : tap;
  element_store<1>((char*)y + (is_bias ? (long long)C * KERNEL + channel : (long long)channel * KERNEL + among) * SIZE,
                   &total);
}
