// Asynchronous copies to shared memory, and reads from it. STAGES - 1 groups of copies are in flight.
constexpr int STAGES = @STAGES@;
constexpr int COPIED = HAS_DERIVATIVE ? 2 : 1;  // tensors of the output's shape: the gradient, and the sums if needed

// A place in shared memory is an integer, because the compiler would convert a pointer anew for each load.
#ifdef __CUDA_ARCH__
typedef word shared_place;
__device__ __forceinline__ shared_place weight_place_of(char* shared) {
  word place = (word)__cvta_generic_to_shared(shared);
  asm volatile("mov.b32 %0, %0;" : "+r"(place));
  return place;
}
// Copies 16 bytes.
__device__ __forceinline__ void weight_copy(shared_place to, const char* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
#else
  const uint4 v = *(const uint4*)from;
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}
// Copies BYTES bytes, or writes zeros if `inside` is false.
template <int BYTES>
__device__ __forceinline__ void weight_copy_if(shared_place to, const char* from, bool inside) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(to), "l"(from), "n"(BYTES), "r"(inside ? BYTES : 0)
               : "memory");
#else
  word v[BYTES / 4];
  element_fetch<BYTES>(v, from, inside);
#pragma unroll
  for (int i = 0; i < BYTES / 4; ++i) asm volatile("st.shared.b32 [%0], %1;" :: "r"(to + 4 * i), "r"(v[i]) : "memory");
#endif
}
// Reads BYTES bytes.
template <int BYTES>
__device__ __forceinline__ void weight_read(word* v, shared_place from) {
  if constexpr (BYTES == 16)
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(from));
  else if constexpr (BYTES == 8)
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(from));
  else if constexpr (BYTES == 4)
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v[0]) : "r"(from));
  else
    asm volatile("{.reg .u16 h; ld.shared.u16 h, [%1]; cvt.u32.u16 %0, h;}" : "=r"(v[0]) : "r"(from));
}
#else
typedef char* shared_place;
inline shared_place weight_place_of(char* shared) { return shared; }
inline void weight_copy(shared_place to, const char* from) { __builtin_memcpy(to, from, 16); }
template <int BYTES>
void weight_copy_if(shared_place to, const char* from, bool inside) {
  if (inside) __builtin_memcpy(to, from, BYTES);
  else __builtin_memset(to, 0, BYTES);
}
template <int BYTES>
void weight_read(word* v, shared_place from) {
  __builtin_memcpy(v, from, BYTES);
}
#endif

// Ends a group of copies.
__device__ __forceinline__ void weight_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits for all groups but the latest STAGES - 2.
__device__ __forceinline__ void weight_await() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
#endif
}
