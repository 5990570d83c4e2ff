// The gradient at a place, times the activation's derivative.
__device__ __forceinline__ float weight_gradient(const char* g, const char* z, long long at) {
  const float v = element_load(g, at);
  return HAS_DERIVATIVE ? v * derivative_activation(element_load(z, at)) : v;
}

// One tap's sum, or with `is_bias` the gradient's own, for tensors that start at no vector's boundary.
__device__ __noinline__ float weight_plain(const char* x, const char* g, const char* z, int channel, int point, int part,
                                           int down, int aside, int t, int u, bool is_bias) {
  float sum = 0.0f;
#pragma unroll 1
  for (int walk = 0; walk < WALKS; ++walk) {
    const weight_place place = weight_at(walk, point, part, down, aside);
#pragma unroll 1
    for (int each = 0; place.any && each < (place.to - place.from) * V; ++each) {
      const int i = place.from + each / V, v = each % V, j = place.column + v;
      const int h = i * STRIDE + t * DILATION - place.above, w = place.left + v * STRIDE + u * DILATION;
      if (j >= WO) continue;
      const float gradient = weight_gradient(g, z, weight_element(place.image, channel, i, j, HO, WO));
      if (is_bias) sum += gradient;
      else if ((word)h < (word)H && (word)w < (word)W)
        sum = fmaf(element_load(x, weight_element(place.image, channel, h, w, H, W)), gradient, sum);
    }
  }
  return sum;
}

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

  // A row of taps at a time, of all places; behind the rows the bias.
  float* const all = (float*)shared;
  float* const to = (float*)workspace + (long long)part * SUMS * C + first;
#pragma unroll
  for (int t = 0; t < TR + HAS_BIAS; ++t) {
    const int width = t < TR ? TC : 1;
    if (t == TR && tile > 0) break;
    if (aligned) weight_give(sum, t, all);
    __syncthreads();
    // If a block has few channels, most of its threads would wait for those that add.
    const int few = width * CHANNELS, slices = PLANES && PIECES > THREADS / few ? THREADS / few : PIECES;
    if (slices < PIECES) {
      float total = 0.0f;
      const int thread = threadIdx.x;
      if (thread < slices * few)
        for (int p = thread / few; p < PIECES; p += slices) total += all[p * few + thread % few];
      __syncthreads();
      if (thread < slices * few) all[thread] = total;
      __syncthreads();
    }
    for (int i = threadIdx.x; i < width * CHANNELS; i += THREADS) {
      const int u = i / CHANNELS, ky = down * TR + t, kx = aside * TC + u;
      float total = 0.0f;
      if (aligned) {
#pragma unroll
        for (int p = 0; p < slices; ++p) total += all[p * few + i];
      } else {
#pragma unroll 1
        for (int p = 0; p < POINTS; ++p)
          total += weight_plain(x, g, z, first + i % CHANNELS, p, part, down, aside, t, u, t == TR);
      }
      const int at = t == TR ? TAPS_H * TAPS_W : ky * TAPS_W + kx;
      if (t == TR || (ky < TAPS_H && kx < TAPS_W)) to[at * C + i % CHANNELS] = total;
    }
    __syncthreads();
  }
}

// A block has 32 channels of one tap, or of the bias; a warp has a slice of the parts.
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
  element_store<1>((char*)y + (is_bias ? (long long)C * KERNEL + channel : (long long)channel * KERNEL + tap) * SIZE,
                   &total);
}
