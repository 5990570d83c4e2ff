#ifndef WAIT_FOR_LAUNCH
#define WAIT_FOR_LAUNCH
// The compiler takes for constant what is read through a pointer that shares its memory with no other.
#ifdef NOTHING_IS_CONSTANT
#define __restrict__
#endif

// Waits until the launches before this one have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif
