// What tensor_copies.cu does, on a CPU. A copy to shared memory is done when a thread waits for its barrier, so what does
// not wait reads what was there before. A copy from shared memory has ended once it has started.
typedef unsigned long long tensor_map;
struct emulated_map {  // axes from the last one on
  char* tensor;
  int extents[4], box[4];
};

template <int SPAN>
constexpr int tensor_swizzled(int at) {
  return at ^ (at >> 7 & SPAN / 16 - 1) << 4;
}

static void emulated_copy(char* shared, tensor_map map, const int (&first)[4], bool fetch) {
  const emulated_map& of = *(const emulated_map*)map;
  const int span = of.box[0] * SIZE;
  int elements = 1;
  for (int n : of.box) elements *= n;
  for (int each = 0; each < elements; ++each) {
    int rest = each, place = 0, step = 1;
    bool inside = true;
    for (int axis = 0; axis < 4; ++axis) {
      const int at = first[axis] + rest % of.box[axis];
      rest /= of.box[axis], inside = inside && at >= 0 && at < of.extents[axis];
      place += at * step, step *= of.extents[axis];
    }
    int at = shared - (char*)emulated_shared + each * SIZE;
    at ^= (at >> 7 & span / 16 - 1) << 4;
    char *const here = (char*)emulated_shared + at, *const there = of.tensor + (long long)place * SIZE;
    if (!fetch && inside) __builtin_memcpy(there, here, SIZE);
    if (fetch) __builtin_memset(here, 0, SIZE);
    if (fetch && inside) __builtin_memcpy(here, there, SIZE);
  }
}
struct emulated_fetch {
  void *to, *barrier;
  const void* from;  // of neighbouring bytes, or null
  int bytes;
  tensor_map map;
  int first[4];
};
static emulated_fetch emulated_fetches[64];
static int emulated_started = 0;

static void tensor_fetch(void* to, tensor_map map, int a, int b, int c, int d, void* barrier) {
  if (emulated_started < 64) emulated_fetches[emulated_started++] = {to, barrier, nullptr, 0, map, {a, b, c, d}};
}
static void tensor_leave(const void* from, tensor_map map, int a, int b, int c, int d) {
  emulated_copy((char*)from, map, {a, b, c, d}, false);
}
static void tensor_fetch_bytes(void* to, const void* from, int bytes, void* barrier) {
  if (emulated_started < 64) emulated_fetches[emulated_started++] = {to, barrier, from, bytes, 0, {}};
}
static void tensor_prefetch(tensor_map) {}
static void tensor_barrier(void*) {}
static void tensor_expect(void*, int) {}
static void tensor_await(void* barrier, int) {
  int kept = 0;
  for (int k = 0; k < emulated_started; ++k) {
    const emulated_fetch each = emulated_fetches[k];
    if (each.barrier != barrier) emulated_fetches[kept++] = each;
    else if (each.from) __builtin_memcpy(each.to, each.from, each.bytes);
    else emulated_copy((char*)each.to, each.map, each.first, true);
  }
  emulated_started = kept;
}
static void tensor_publish() {}
template <int>
static void tensor_await_reads() {}
static void tensor_await_writes() {}
