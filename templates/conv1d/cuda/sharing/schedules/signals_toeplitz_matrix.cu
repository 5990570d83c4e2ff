// Instructions for signals_toeplitz.cu: products of matrices in shared memory, and copies to it.
typedef unsigned long long descriptor;
constexpr int COLUMNS = @COLUMNS@, SUMS = COLUMNS / 2;

// sum += samples by taps, for 16 samples.
__device__ __forceinline__ void matrix_multiply(float (&sum)[SUMS], descriptor samples, descriptor taps) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n@COLUMNS@k16.f32.@TYPE@.@TYPE@ {@REGISTERS@}, %@SAMPLES@, %@TAPS@, "
      "1, 1, 1, 0, 0;"
      : @SUMS@
      : "l"(samples), "l"(taps));
}

__device__ __forceinline__ void matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void matrix_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all products but those of the last COUNT commits.
template <int COUNT>
__device__ __forceinline__ void matrix_wait(float (&sum)[SUMS]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(COUNT) : "memory");
#pragma unroll
  for (int i = 0; i < (COUNT ? 0 : SUMS); ++i) asm volatile("" : "+f"(sum[i])::"memory");  // read after the wait
}

// Makes what was written visible to the matrix instructions.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Begins a copy of 16 bytes, with zeros from `bytes` on.
__device__ __forceinline__ void copy_begin(word to, const char* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int COUNT>
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(COUNT) : "memory"); }
