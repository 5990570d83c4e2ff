// Barriers of some threads of a block. They are numbered from 0, which is also the barrier of __syncthreads(), to 15. A
// barrier opens once `threads` threads, whole warps, have met it or arrived at it. Those that met it may then read what
// all of them wrote before.
__device__ __forceinline__ void barrier_meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}

// Arrives without waiting for the others.
__device__ __forceinline__ void barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
