// What halves.cu does, on a CPU: a warp's lanes have the operands as PTX's mma wants them. float32 is split into halves
// of float16.
constexpr bool IS_BF16 = !IS_FLOAT && !IS_HALF;

static float halves_widen(word h) { return IS_BF16 ? __uint_as_float(h << 16) : half_widen(h); }
static void halves_split(float a, float b, word& high, word& low) {
  high = half_narrow(a) | half_narrow(b) << 16;
  low = half_narrow(a - half_widen(high)) | half_narrow(b - half_widen(high >> 16)) << 16;
}
static word halves_warp_max(word value) {
  for (int lane = 16; lane > 0; lane /= 2) value = max(value, __shfl_xor_sync(~0u, value, lane));
  return value;
}
static int halves_exponent(word bits) { return min(max(141 - (int)(bits >> 23), -126), 126); }
static void atomicMax(word* to, word value) { *to = max(*to, value); }

// Tensor cores truncate their sums.
static float emulated_truncated(double sum) {
  const float nearest = (float)sum;
  const bool is_larger = __builtin_fabs(nearest) > __builtin_fabs(sum);
  return is_larger ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;
}

static word __byte_perm(word a, word b, word selector) {
  const unsigned long long both = (unsigned long long)b << 32 | a;
  word found = 0;
  for (int i = 0; i < 4; ++i) found |= (word)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return found;
}
static word emulated_operands[1024][6];
static void halves_multiply(float (&c)[4], const word (&a)[4], word b0, word b1) {
  word* const own = emulated_operands[threadIdx.x];
  for (int i = 0; i < 4; ++i) own[i] = a[i];
  own[4] = b0, own[5] = b1;
  emulated_yield();
  const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    double sum = c[i];
    for (int k = 0; k < 16; ++k) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2, of = k % 8 / 2, shift = 16 * (k % 2);
      const word x = emulated_operands[warp + row * 4 + of][i / 2 + k / 8 * 2] >> shift;
      const word y = emulated_operands[warp + column * 4 + of][4 + k / 8] >> shift;
      sum += (double)halves_widen(x & 0xffff) * halves_widen(y & 0xffff);
    }
    c[i] = emulated_truncated(sum);
  }
  emulated_yield();
}
static void halves_multiply_half(float (&c)[4], word a0, word a1, word b) { halves_multiply(c, {a0, a1, 0, 0}, b, 0); }

// Matrices of eight rows by eight, as ldmatrix reads them: eight lanes give the places of one's rows.
static word emulated_places[1024];
static void emulated_rows(word* a, word place, int matrices) {
  emulated_places[threadIdx.x] = place;
  emulated_yield();
  const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  for (int i = 0; i < matrices; ++i)
    a[i] = *(const word*)((const char*)emulated_shared + emulated_places[warp + 8 * i + lane / 4] + lane % 4 * 4);
  emulated_yield();
}
static void halves_rows(word (&a)[4], word place) { emulated_rows(a, place, 4); }
static void halves_half_rows(word (&a)[4], word place) { emulated_rows(a, place, 2); }
