// What signals_fourier_matrix.cu does, on a CPU: the layouts are those of PTX's wgmma with 128 bytes of swizzle, and of
// mma, ldmatrix and stmatrix.
typedef unsigned long long descriptor;

static word half_pack(float a, float b) { return half_narrow(a) | half_narrow(b) << 16; }
static word halves_larger(word a, word b) { return max(a & 0xffffu, b & 0xffffu) | max(a >> 16, b >> 16) << 16; }
struct float4 {
  float x, y, z, w;
};
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// Element i of line k of an operand.
static float matrix_element(descriptor of, int k, int i) {
  const word start = (of & 0x3fff) << 4, stride = (of >> 32 & 0x3fff) << 4;
  word at = start + k / 8 * stride + k % 8 * 128 + 2 * i;
  at ^= (at >> 7 & 7) << 4;
  return half_widen(*(const unsigned short*)((const char*)emulated_shared + at));
}
static void matrix_add(float (&sum)[32], const float (&a)[2][16], descriptor b) {
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 16; ++i) {
      const float v = matrix_element(b, k, i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2);
      for (int half = 0; half < 2; ++half) sum[i / 2 * 4 + 2 * half + i % 2] += a[half][k] * v;
    }
}
static word emulated_words[1024][6];
// The words of a quarter's lanes, as a matrix has them.
template <bool IS_FIRST>
void matrix_multiply(float (&sum)[32], const word (&a)[4], descriptor b) {
  for (int r = 0; r < 4; ++r) emulated_words[threadIdx.x][r] = a[r];
  emulated_yield();
  float rows[2][16];
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k) {
      const word pair = emulated_words[threadIdx.x / 4 * 4 + k % 8 / 2][k / 8 * 2 + half];
      rows[half][k] = half_widen(pair >> 16 * (k % 2));
    }
  emulated_yield();
  if (IS_FIRST) __builtin_memset(sum, 0, sizeof sum);
  matrix_add(sum, rows, b);
}
template <bool IS_FIRST>
void matrix_multiply(float (&sum)[32], descriptor a, descriptor b) {
  float rows[2][16];
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k)
      rows[half][k] = matrix_element(a, threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half, k);
  if (IS_FIRST) __builtin_memset(sum, 0, sizeof sum);
  matrix_add(sum, rows, b);
}
static void tile_multiply(float (&sum)[4], word a0, word a1, word a2, word a3, word b0, word b1) {
  const word given[6] = {a0, a1, a2, a3, b0, b1};
  for (int i = 0; i < 6; ++i) emulated_words[threadIdx.x][i] = given[i];
  emulated_yield();
  const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k) {
      const int line = lane / 4, column = lane % 4 * 2 + i % 2, of = k % 8 / 2, shift = 16 * (k % 2);
      const word a = emulated_words[warp + line * 4 + of][i / 2 + k / 8 * 2];
      sum[i] += half_widen(a >> shift) * half_widen(emulated_words[warp + column * 4 + of][4 + k / 8] >> shift);
    }
  emulated_yield();
}
static word* tile_line(int matrix, int line) {
  return emulated_shared + emulated_words[threadIdx.x / 32 * 32 + 8 * matrix + line][0] / 4;
}
static void tile_load(word (&v)[4], word from) {
  emulated_words[threadIdx.x][0] = from;
  emulated_yield();
  for (int i = 0; i < 4; ++i) v[i] = tile_line(i, threadIdx.x % 32 / 4)[threadIdx.x % 4];
  emulated_yield();
}
static void tile_store(word to, const word (&v)[4]) {
  emulated_words[threadIdx.x][0] = to;
  emulated_yield();
  for (int i = 0; i < 4; ++i)
    for (int e = 0; e < 2; ++e)
      ((unsigned short*)tile_line(i, threadIdx.x % 4 * 2 + e))[threadIdx.x % 32 / 4] = v[i] >> 16 * e;
  emulated_yield();
}
static void matrix_begin() {}
static void matrix_commit() {}
template <int COUNT>
void matrix_wait(float (&)[32]) {}
static void publish() {}
static void copy_begin(word to, const char* from, int bytes) {
  char* const into = (char*)emulated_shared + to;
  __builtin_memset(into, 0, 16);
  __builtin_memcpy(into, from, bytes);
}
static void copy_wait() {}
