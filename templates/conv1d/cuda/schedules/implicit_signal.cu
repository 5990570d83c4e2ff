// Shared by the implicit products: indices of elements in the tensors, and copies to shared memory.
constexpr bool CHANNELS_LAST = @CHANNELS_LAST@, FLIP = @FLIP@;
constexpr int C = @C@, M = @M@, F = @F@, L = @L@, N = @N@;
constexpr int STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;

constexpr int implicit_divisor(int a, int b) { return b ? implicit_divisor(b, a % b) : a; }

__device__ __forceinline__ long long implicit_place(int b, int c, int i, int channels, int extent) {
  return CHANNELS_LAST ? ((long long)b * extent + i) * channels + c : ((long long)b * channels + c) * extent + i;
}

// Copies 16 bytes to shared memory, or zeros if they are not `inside`.
__device__ __forceinline__ void implicit_copy(void* to, const void* from, bool inside) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
#else
  word v[4];
  element_fetch<16>(v, (const char*)from, inside);
#pragma unroll
  for (int i = 0; i < 4; ++i) ((word*)to)[i] = v[i];
#endif
}

// Waits for the thread's copies.
__device__ __forceinline__ void implicit_copied() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

