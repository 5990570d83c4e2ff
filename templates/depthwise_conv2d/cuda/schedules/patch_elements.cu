// Elements of the tensors, and their copies to shared memory, where they are floats.
#if @IS_FLOAT@
typedef float patch_element;
__device__ __forceinline__ float patch_widen(float v) { return v; }
__device__ __forceinline__ float patch_narrow(float v) { return v; }
#else
typedef unsigned short patch_element;
__device__ __forceinline__ float patch_widen(patch_element h) { return element_widen(h); }
__device__ __forceinline__ patch_element patch_narrow(float v) { return (patch_element)element_narrow(v); }
#endif

// V neighbouring elements, aligned to their size.
template <int V>
struct __align__(V * sizeof(patch_element)) patch_vector {
  patch_element e[V];
};
template <int V>
struct __align__(V * sizeof(float)) patch_floats {
  float e[V];
};

template <int V>
__device__ __forceinline__ bool patch_aligned(const void* p) {
  return ((size_t)p & (V * sizeof(patch_element) - 1)) == 0;
}

// Copies V neighbouring elements to shared memory, asynchronously if the device can and they need no conversion;
// patch_arrived() waits for them.
template <int V>
__device__ __forceinline__ void patch_fetch(float* to, const patch_element* from) {
#if __CUDA_ARCH__ >= 800 && @IS_FLOAT@
  const unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
  if (V == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(4 * V) : "memory");
#else
  const patch_vector<V> v = *(const patch_vector<V>*)from;
  patch_floats<V> f;
#pragma unroll
  for (int e = 0; e < V; ++e) f.e[e] = patch_widen(v.e[e]);
  *(patch_floats<V>*)to = f;
#endif
}

__device__ __forceinline__ void patch_arrived() {
#if __CUDA_ARCH__ >= 800 && @IS_FLOAT@
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

