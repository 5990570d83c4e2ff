// Products of float32 on tensor cores: each number is split into a high and a low half of 16 bits. With one product
// instead of three, numbers are only rounded to 16 bits.
typedef unsigned int word;

__device__ __forceinline__ unsigned short halves_narrow(float v) {
  unsigned short h;
  asm("cvt.rn.@TYPE@.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}

__device__ __forceinline__ float halves_widen(unsigned short h) {
#if @IS_BF16@
  return __uint_as_float(((word)h) << 16);
#else
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
#endif
}

// Rounds two neighbouring floats to halves and packs them into a word, `a` in its low half.
__device__ __forceinline__ word halves_pack(float a, float b) {
#if __CUDA_ARCH__ >= 800
  word h;
  asm("cvt.rn.@TYPE@x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a));
  return h;
#else
  return halves_narrow(a) | ((word)halves_narrow(b) << 16);
#endif
}

// Splits two floats into their high halves, and the halves of the remainders if three products are summed.
__device__ __forceinline__ void halves_split(float a, float b, word& high, word& low) {
  high = halves_pack(a, b);
  if (@PRODUCTS@ == 3) low = halves_pack(a - halves_widen(high & 0xffff), b - halves_widen(high >> 16));
}

// Loads a fragment of 16 rows by 16 columns. Each lane passes the address of eight columns of one row.
__device__ __forceinline__ void halves_rows(word (&a)[4], word address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(address));
}

// Loads only the first eight columns of a fragment.
__device__ __forceinline__ void halves_half_rows(word (&a)[4], word address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a[0]), "=r"(a[1]) : "r"(address));
}

__device__ __forceinline__ void halves_multiply_half(float (&c)[4], word a0, word a1, word b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.@TYPE@.@TYPE@.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b));
}

__device__ __forceinline__ void halves_multiply(float (&c)[4], const word (&a)[4], word b0, word b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.@TYPE@.@TYPE@.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  halves_multiply_half(c, a[0], a[1], b0);
  halves_multiply_half(c, a[2], a[3], b1);
#endif
}

__device__ __forceinline__ word halves_warp_max(word value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
  for (int lane = 16; lane > 0; lane /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, lane));
  return value;
#endif
}

// Returns the exponent of the power of two that scales a magnitude near to the largest half. `bits` are the
// magnitude's.
__device__ __forceinline__ int halves_exponent(word bits) {
  const int exponent = 14 - ((int)(bits >> 23) - 127);
  return exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
}

__device__ __forceinline__ float halves_power(int exponent) { return __uint_as_float((word)(exponent + 127) << 23); }

