// What signals_toeplitz_matrix.cu does, on a CPU: the layouts are those of PTX's wgmma, without swizzle or with 128 bytes.
typedef unsigned long long descriptor;
constexpr int COLUMNS = @COLUMNS@, SUMS = COLUMNS / 2;

// Element k of a row of an operand.
static float matrix_element(descriptor of, int row, int k) {
  const word start = (of & 0x3fff) << 4, leading = (of >> 16 & 0x3fff) << 4, stride = (of >> 32 & 0x3fff) << 4;
  word at = start + row / 8 * stride;
  if (of >> 62 == 1) {
    at += row % 8 * 128 + 2 * k;
    at ^= (at >> 7 & 7) << 4;
  } else {
    at += k / 8 * leading + row % 8 * 16 + k % 8 * 2;
  }
  return element_load((const char*)emulated_shared + at, 0);
}

static void matrix_multiply(float (&sum)[SUMS], descriptor samples, descriptor taps) {
  const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16 + lane / 4;
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k) {
      const float sample = matrix_element(samples, first + 8 * half, k);
      for (int block = 0; block < COLUMNS / 8; ++block)
        for (int e = 0; e < 2; ++e)
          sum[4 * block + 2 * half + e] += sample * matrix_element(taps, 8 * block + lane % 4 * 2 + e, k);
    }
}

static void matrix_begin() {}
static void matrix_commit() {}
template <int COUNT>
void matrix_wait(float (&)[SUMS]) {}
static void publish() {}
static void copy_begin(word to, const char* from, int bytes) {
  char* const into = (char*)emulated_shared + to;
  __builtin_memset(into, 0, 16);
  __builtin_memcpy(into, from, bytes);
}
static void copy_commit() {}
template <int COUNT>
void copy_wait() {}
