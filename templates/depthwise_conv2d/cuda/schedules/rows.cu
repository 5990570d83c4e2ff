// Depthwise convolution of planes. A thread sums a strip of R rows by V columns of outputs. It slides down the input
// rows, reads each of them once and adds it to all output rows that it reaches. Sums and the plane's weights stay in
// registers.
//
// Direct (rows_direct.cu): the columns of a row, and their neighbours left and right, come from global memory in
// aligned vectors, AHEAD rows before their use. Neighbouring lanes have neighbouring columns, then strips, then planes.
//
// Staged (rows_staged.cu): a block copies P planes to shared memory in the order of global memory, so rows may be
// short. A thread has whole rows, and the compiler knows which taps fall outside them. Neighbouring lanes have
// neighbouring planes, an odd number of vectors apart, so that no two lanes use the same bank. With BULK the planes of
// different blocks arrive one after the other: some blocks compute and store while others still wait.
constexpr int PLANES = @PLANES@, C = @C@, H = @H@, W = @W@, K = @K@, STRIDE = @STRIDE@;
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@;  // used taps: those that meet the input somewhere
constexpr bool FLIP = @FLIP@;
constexpr int R = @ROWS@, V = @V@;
constexpr int HO = (H - 1) / STRIDE + 1, WO = (W - 1) / STRIDE + 1;
constexpr int TOP = TAPS_H / 2, LEFT = TAPS_W / 2, TAPS = TAPS_H * TAPS_W;
constexpr int STRIPS = (HO + R - 1) / R, ROWS = (R - 1) * STRIDE + TAPS_H;

// Read the indices of block and thread anew at each call, because keeping them costs registers.
__device__ __forceinline__ int depthwise_block() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}

__device__ __forceinline__ int depthwise_thread() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Starts a copy of 16 bytes to shared memory; depthwise_copied() waits for it.
__device__ __forceinline__ void depthwise_copy(float* to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

__device__ __forceinline__ void depthwise_copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Bulk copies, which one thread starts and the copy engine does. Sizes are in bytes and multiples of 16. A barrier is
// used once; it opens when the expected bytes have arrived.
__device__ __forceinline__ void depthwise_expect(word* barrier, int bytes) {
  const word address = (word)__cvta_generic_to_shared(barrier);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(address) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
}

__device__ __forceinline__ void depthwise_bulk_in(float* to, const char* from, int bytes, word* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes),
                  "r"((word)__cvta_generic_to_shared(barrier)) : "memory");
}

__device__ __forceinline__ void depthwise_await(word* barrier) {
  asm volatile("{.reg .pred p; waiting: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra waiting;}"
               :: "r"((word)__cvta_generic_to_shared(barrier)) : "memory");
}

// Makes this thread's writes to shared memory visible to the copy engine. Every thread calls it before the
// __syncthreads() after which one thread calls depthwise_bulk_out().
__device__ __forceinline__ void depthwise_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void depthwise_bulk_out(char* to, const float* from, int bytes) {
  const word address = (word)__cvta_generic_to_shared(from);
  if constexpr (@STREAMING@)
    asm volatile("{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;"
                 " cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, policy;}"
                 :: "l"(to), "r"(address), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(address), "r"(bytes) : "memory");
}

// Waits until the copy engine has read shared memory, which must exist until then.
__device__ __forceinline__ void depthwise_bulk_read() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ int depthwise_channel(int plane) { return PLANES == C ? plane : plane % C; }

// Returns the tap that meets element t of a window.
__device__ __forceinline__ constexpr int depthwise_met(int t) { return FLIP ? TAPS - 1 - t : t; }

// Returns the index of a channel's used tap t in the weight.
__device__ __forceinline__ int depthwise_tap(int channel, int t) {
  return channel * (K * K) + (K / 2 - TOP + t / TAPS_W) * K + K / 2 - LEFT + t % TAPS_W;
}

