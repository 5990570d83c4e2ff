// Elements of the tensors. They are @DTYPE@ in memory, are loaded and stored packed into 32-bit words, and are floats
// when they are computed with.
constexpr bool IS_FLOAT = @IS_FLOAT@, IS_BF16 = @IS_BF16@;
constexpr int SIZE = IS_FLOAT ? 4 : 2;

typedef unsigned int word;

constexpr int element_words(int elements) { return IS_FLOAT ? elements : (elements + 1) / 2; }

// Without .nc the compiler moves no load past a store, so loads that the source issues rows ahead of their use stay
// ahead.
#ifdef NOTHING_IS_CONSTANT
#define ELEMENT_LOAD "ld.global"
#else
#define ELEMENT_LOAD "ld.global@LOAD@"
#endif

// Loads BYTES bytes of elements from global memory, or zeros if `inside` is false.
template <int BYTES>
__device__ __forceinline__ void element_fetch(word* v, const char* from, bool inside) {
  if constexpr (BYTES == 16)
    asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
        " @p " ELEMENT_LOAD ".v4.b32 {%0, %1, %2, %3}, [%4];}"
        : "=&r"(v[0]), "=&r"(v[1]), "=&r"(v[2]), "=&r"(v[3]) : "l"(from), "r"((int)inside));
  else if constexpr (BYTES == 8)
    asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
        " @p " ELEMENT_LOAD ".v2.b32 {%0, %1}, [%2];}"
        : "=&r"(v[0]), "=&r"(v[1]) : "l"(from), "r"((int)inside));
  else if constexpr (BYTES == 4)
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b32 %0, 0; @p " ELEMENT_LOAD ".b32 %0, [%1];}"
        : "=&r"(v[0]) : "l"(from), "r"((int)inside));
  else
    asm volatile("{.reg .pred p; .reg .u16 h; setp.ne.u32 p, %2, 0; mov.b16 h, 0;"
        " @p " ELEMENT_LOAD ".u16 h, [%1]; cvt.u32.u16 %0, h;}"
        : "=&r"(v[0]) : "l"(from), "r"((int)inside));
}

// Reads BYTES bytes of elements from any memory. The compiler may move such a load.
template <int BYTES>
__device__ __forceinline__ void element_read(word* v, const char* from) {
  if constexpr (BYTES == 16) {
    const uint4 four = *(const uint4*)from;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
  } else if constexpr (BYTES == 8) {
    const uint2 two = *(const uint2*)from;
    v[0] = two.x, v[1] = two.y;
  } else {
    v[0] = BYTES == 4 ? *(const word*)from : *(const unsigned short*)from;
  }
}

// Stores BYTES bytes of packed elements.
template <int BYTES>
__device__ __forceinline__ void element_put(char* to, const word* v) {
  if constexpr (BYTES == 16)
    asm volatile("st.global@STORE@.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
  else if constexpr (BYTES == 8)
    asm volatile("st.global@STORE@.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(v[0]), "r"(v[1]) : "memory");
  else if constexpr (BYTES == 4)
    asm volatile("st.global@STORE@.b32 [%0], %1;" :: "l"(to), "r"(v[0]) : "memory");
  else
    asm volatile("st.global@STORE@.u16 [%0], %1;" :: "l"(to), "h"((unsigned short)v[0]) : "memory");
}

// Converts a 16-bit element to a float.
__device__ __forceinline__ float element_widen(unsigned short h) {
  if constexpr (IS_BF16) return __uint_as_float((word)h << 16);
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
}

// Returns element i of packed elements as a float.
__device__ __forceinline__ float element_at(const word* v, int i) {
  if constexpr (IS_FLOAT) return __uint_as_float(v[i]);
  else if constexpr (IS_BF16) return __uint_as_float(i % 2 ? v[i / 2] & 0xffff0000u : v[i / 2] << 16);
  else return element_widen((unsigned short)(v[i / 2] >> (16 * (i % 2))));
}

// Rounds a float to a 16-bit element: to the nearest one, and to the even one in a tie.
__device__ __forceinline__ word element_narrow(float v) {
  if constexpr (IS_BF16) {
    const word bits = __float_as_uint(v);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  } else {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return h;
  }
}

// Packs two neighbouring 16-bit elements into a word, `a` in its low half.
__device__ __forceinline__ word element_pack(float a, float b) {
#if __CUDA_ARCH__ >= 800
  word h;
  if constexpr (IS_BF16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a));
  return h;
#else
  return element_narrow(a) | element_narrow(b) << 16;
#endif
}

// Packs N neighbouring elements in the order that they have in memory.
template <int N>
__device__ __forceinline__ void element_pack_all(word (&packed)[element_words(N)], const float* v) {
#pragma unroll
  for (int i = 0; i < element_words(N); ++i) {
    if constexpr (IS_FLOAT) packed[i] = __float_as_uint(v[i]);
    else packed[i] = 2 * i + 1 < N ? element_pack(v[2 * i], v[2 * i + 1]) : element_narrow(v[2 * i]);
  }
}

// Stores N neighbouring elements. `to` must be aligned to N * SIZE bytes.
template <int N>
__device__ __forceinline__ void element_store(char* to, const float* v) {
  word packed[element_words(N)];
  element_pack_all<N>(packed, v);
  element_put<N * SIZE>(to, packed);
}

__device__ __forceinline__ float element_load(const char* from, long long i) {
  word v[1];
  element_fetch<SIZE>(v, from + i * SIZE, true);
  return element_at(v, 0);
}
