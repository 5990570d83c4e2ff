// Copies of a box of a tensor of four axes between the tensor and shared memory, as its map describes them: tensor
// copies of CUDA, from compute capability 9.0 on. One thread starts a copy. What lies outside the tensor is read as
// zeros and not written. Positions are in elements, those of the last axis first; `map` is the address of a tensor map.
// In shared memory a box lies at a multiple of 8 * SPAN bytes, where SPAN is what its last axis takes: 32, 64 or 128.
// Vectors of 16 bytes are swizzled there.
struct alignas(64) CUtensorMap { char bytes[128]; };  // as cuda.h has it; kernels take it as a parameter
typedef unsigned long long tensor_map;

// Returns where a byte of a box lies in shared memory. `at` counts from a multiple of 8 * SPAN bytes.
template <int SPAN>
constexpr __device__ int tensor_swizzled(int at) {
  return at ^ (at >> 7 & SPAN / 16 - 1) << 4;
}

__device__ __forceinline__ word tensor_shared(const void* place) { return (word)__cvta_generic_to_shared(place); }

// Begins to fetch a map, which is no memory that a launch before may have written.
__device__ __forceinline__ void tensor_prefetch(tensor_map map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

// Makes a barrier of 8 bytes in shared memory, which opens once a number of bytes have arrived. Only the thread that
// made it may start copies, until all threads have met.
__device__ __forceinline__ void tensor_barrier(void* barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(tensor_shared(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Says how many bytes a barrier waits for. One thread calls it before it starts their copies.
__device__ __forceinline__ void tensor_expect(void* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
               :: "r"(tensor_shared(barrier)), "r"(bytes) : "memory");
}

// Waits until a barrier has opened once more. `parity` is 0 at first, then in turns 1 and 0.
__device__ __forceinline__ void tensor_await(void* barrier, int parity) {
  asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again;}"
               :: "r"(tensor_shared(barrier)), "r"(parity) : "memory");
}

// Starts to copy neighbouring bytes, a multiple of 16.
__device__ __forceinline__ void tensor_fetch_bytes(void* to, const void* from, int bytes, void* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(tensor_shared(to)), "l"(from), "r"(bytes), "r"(tensor_shared(barrier)) : "memory");
}

// Starts to copy a box to shared memory.
__device__ __forceinline__ void tensor_fetch(void* to, tensor_map map, int a, int b, int c, int d, void* barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];"
               :: "r"(tensor_shared(to)), "l"(map), "r"(a), "r"(b), "r"(c), "r"(d), "r"(tensor_shared(barrier))
               : "memory");
}

// Lets copies that start after the next barrier of the block read what this thread has written to shared memory.
__device__ __forceinline__ void tensor_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Starts to copy a box from shared memory to the tensor. Streaming results are the first that leave the L2 cache.
__device__ __forceinline__ void tensor_leave(const void* from, tensor_map map, int a, int b, int c, int d) {
  constexpr bool STREAMING = @IS_STREAMING@;
  if constexpr (STREAMING) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint "
                 "[%0, {%1, %2, %3, %4}], [%5], %6;"
                 :: "l"(map), "r"(a), "r"(b), "r"(c), "r"(d), "r"(tensor_shared(from)), "l"(policy) : "memory");
  } else {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                 :: "l"(map), "r"(a), "r"(b), "r"(c), "r"(d), "r"(tensor_shared(from)) : "memory");
  }
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until the copies that this thread has started from shared memory, except at most the last LEFT, have read it.
template <int LEFT>
__device__ __forceinline__ void tensor_await_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(LEFT) : "memory");
}

// Waits until they have ended.
__device__ __forceinline__ void tensor_await_writes() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
