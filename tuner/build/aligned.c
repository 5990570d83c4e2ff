/* The alignment of a tensor that has a tensor map.

TVM can't compute with an address itself: one of its passes fails on a pointer that is reinterpreted. */

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the last address, up to this one, at which such a tensor may begin. */
void *aligned_for_a_map(void *address) {
  return (void *)((unsigned long long)address & ~15ULL);
}

#ifdef __cplusplus
}
#endif
