// Lets the next launch on the stream begin as soon as all blocks of this one have called it or ended, if it is one that
// may begin early. Such a launch waits until this one has ended.
__device__ __forceinline__ void begin_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
