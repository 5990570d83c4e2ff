// A thread sums a strip of R rows by V columns of outputs: it slides down the input rows, each of which it reads once
// and multiplies into all the output rows that it reaches. Sums and the plane's weights stay in registers.
// Direct: a row's columns, and their neighbours left and right, come from global memory in aligned vectors, AHEAD rows
// before they are used; neighbouring lanes take neighbouring columns, then strips, then planes.
// Staged: a block copies P planes flat to shared memory, where they lie one after the other as in global memory,
// however short their rows. There a thread takes whole rows, neighbouring lanes neighbouring planes, an odd number of
// vectors apart, so that no two lanes meet in a bank, and which taps fall outside a row is known to the compiler.
// Blocks copied in BULK arrive one after the other: some sum and leave while others still wait for their planes.
constexpr int PLANES = @PLANES@, C = @C@, H = @H@, W = @W@, K = @K@, STRIDE = @STRIDE@;
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@;  // those that can touch data
constexpr bool FLIP = @FLIP@;
constexpr int R = @ROWS@, V = @V@;
constexpr int HO = (H - 1) / STRIDE + 1, WO = (W - 1) / STRIDE + 1;
constexpr int TOP = TAPS_H / 2, LEFT = TAPS_W / 2, TAPS = TAPS_H * TAPS_W;
constexpr int STRIPS = (HO + R - 1) / R, ROWS = (R - 1) * STRIDE + TAPS_H;

// Which block and thread these are, asked anew each time.
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

// 16 bytes to shared memory, on their way until depthwise_copied().
__device__ __forceinline__ void depthwise_copy(float* to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

__device__ __forceinline__ void depthwise_copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What one thread asks for and the copy engine does; sizes in bytes, multiples of 16. A barrier is for one use: it
// opens when all the bytes are there.
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

// Of what this thread wrote, before a __syncthreads() after which a thread calls depthwise_bulk_out().
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

// Shared memory may be given back.
__device__ __forceinline__ void depthwise_bulk_read() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ int depthwise_channel(int plane) { return PLANES == C ? plane : plane % C; }

// The tap that meets the t-th element of a window.
__device__ __forceinline__ constexpr int depthwise_met(int t) { return FLIP ? TAPS - 1 - t : t; }

// Where tap t of a channel is.
__device__ __forceinline__ int depthwise_tap(int channel, int t) {
  return channel * (K * K) + (K / 2 - TOP + t / TAPS_W) * K + K / 2 - LEFT + t % TAPS_W;
}

