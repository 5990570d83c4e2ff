// Instructions for signals_fourier.cu: products of matrices in half precision, summed in float32, and copies.
typedef unsigned long long descriptor;

// sum = a b if IS_FIRST, else sum += a b: 64 by 64, for 16 k. Operand b is in shared memory, where the 64 columns of one
// k are a line of 128 bytes. Operand a is in registers, or in shared memory, where 64 k of a row are such a line. The
// first sums are outputs only: as inputs, too, they would have to be set, and registers spill.
template <bool IS_FIRST>
__device__ __forceinline__ void matrix_multiply(float (&sum)[32], const word (&a)[4], descriptor b) {
  if constexpr (IS_FIRST)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {@REGISTERS@}, {%32, %33, %34, %35}, %36, 0, 1, 1, 1;"
        : @NEW_SUMS@
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {@REGISTERS@}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
        : @SUMS@
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <bool IS_FIRST>
__device__ __forceinline__ void matrix_multiply(float (&sum)[32], descriptor a, descriptor b) {
  if constexpr (IS_FIRST)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {@REGISTERS@}, %32, %33, 0, 1, 1, 0, 1;"
                 : @NEW_SUMS@
                 : "l"(a), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {@REGISTERS@}, %32, %33, 1, 1, 1, 0, 1;"
                 : @SUMS@
                 : "l"(a), "l"(b));
}

__device__ __forceinline__ void matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void matrix_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most COUNT groups of products are unfinished. The sums must belong to an earlier group.
template <int COUNT>
__device__ __forceinline__ void matrix_wait(float (&sum)[32]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// Makes what was written visible to the matrix instructions of warpgroups.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// sum += a b of a warp, 16 by 8, for 16 k.
__device__ __forceinline__ void tile_multiply(float (&sum)[4], word a0, word a1, word a2, word a3, word b0, word b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Loads four matrices of 8 lines of 16 bytes. Lane l gives the address of line l % 8 of matrix l / 8, and gets word l %
// 4 of line l / 4 of each matrix.
__device__ __forceinline__ void tile_load(word (&v)[4], word from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
}

// Stores four matrices, with addresses as in tile_load, transposed: a lane has elements l / 4 of line l % 4 * 2 and of
// the next line.
__device__ __forceinline__ void tile_store(word to, const word (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}

// Packs two numbers in half precision, the first one low.
__device__ __forceinline__ word half_pack(float a, float b) {
  word h;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a));
  return h;
}
__device__ __forceinline__ float half_widen(word h) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)h));
  return v;
}

// Returns the larger of the low halves and the larger of the high halves, compared as bits: right for numbers that are
// not negative.
__device__ __forceinline__ word halves_larger(word a, word b) {
  asm("max.u16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}

// Begins a copy of 16 bytes, with zeros from `bytes` on.
__device__ __forceinline__ void copy_begin(word to, const char* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
