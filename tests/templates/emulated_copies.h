// What tensor_copies.cu does, on a CPU, as late as a GPU may do it. A copy to shared memory spoils its place when it
// starts, and arrives once a thread waits for its barrier with the right parity. A copy from shared memory reads it twice:
// when it starts, and when the thread that started it has waited for it. What it reads must not change in between.
typedef unsigned long long tensor_map;
struct emulated_map {  // axes from the last one on
  char* tensor;
  int extents[4], box[4];
};

template <int SPAN>
constexpr int tensor_swizzled(int at) {
  return at ^ (at >> 7 & SPAN / 16 - 1) << 4;
}

// Calls `visit` with the place in shared memory of each element of a box, and that in the tensor or null. Returns the
// bytes of the box.
template <class Visit>
static int emulated_box(const void* shared, tensor_map map, const int (&first)[4], Visit visit) {
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
    int at = (const char*)shared - (char*)emulated_shared + each * SIZE;
    at ^= (at >> 7 & span / 16 - 1) << 4;
    visit((char*)emulated_shared + at, inside ? of.tensor + (long long)place * SIZE : nullptr);
  }
  return elements * SIZE;
}

// A copy that has started: to shared memory if it has a barrier, else from there.
struct emulated_copy {
  int thread;
  void *shared, *barrier;
  tensor_map map;
  int first[4];
  const void* from;  // `bytes` neighbouring bytes if there is no map
  int bytes;
};
static emulated_copy emulated_copies[256];
static int emulated_started;

static void emulated_begin_copy(const emulated_copy& copy) {
  if (emulated_started == 256) emulated_fail("too many copies are under way");
  emulated_copies[emulated_started++] = copy;
}
// Takes away the copies that `ends` ends, in the order of their starts.
template <class Ends>
static void emulated_end_copies(Ends ends) {
  int kept = 0;
  for (int k = 0; k < emulated_started; ++k)
    if (!ends(emulated_copies[k])) emulated_copies[kept++] = emulated_copies[k];
  emulated_started = kept;
}
// Returns the bytes that arrive.
static int emulated_arrive(const emulated_copy& copy) {
  if (!copy.map) {
    __builtin_memcpy(copy.shared, copy.from, copy.bytes);
    return copy.bytes;
  }
  return emulated_box(copy.shared, copy.map, copy.first, [](char* here, const char* there) {
    if (there) __builtin_memcpy(here, there, SIZE);
    else __builtin_memset(here, 0, SIZE);
  });
}
constexpr int EMULATED_SPOILT = 0xff;  // the bytes of a NaN

static void tensor_fetch(void* to, tensor_map map, int a, int b, int c, int d, void* barrier) {
  emulated_box(to, map, {a, b, c, d}, [](char* here, char*) { __builtin_memset(here, EMULATED_SPOILT, SIZE); });
  emulated_begin_copy({threadIdx.x, to, barrier, map, {a, b, c, d}});
}
static void tensor_fetch_bytes(void* to, const void* from, int bytes, void* barrier) {
  __builtin_memset(to, EMULATED_SPOILT, bytes);
  emulated_begin_copy({threadIdx.x, to, barrier, 0, {}, from, bytes});
}
static void tensor_prefetch(tensor_map) {}

// A barrier of copies: how often it has opened, and the bytes it lacks to do so again. If it expects any, `expected` is the
// turn in which a thread said so, else 0.
struct emulated_gate {
  void* place;
  int opened, lacks, expected;
};
static emulated_gate emulated_gates[128];
static int emulated_made;

static void tensor_barrier(void* place) {
  if (emulated_made == 128) emulated_fail("a block has too many barriers of copies");
  emulated_gates[emulated_made++] = {place};
}
static emulated_gate& emulated_gate_at(void* place) {
  for (int k = 0; k < emulated_made; ++k)
    if (emulated_gates[k].place == place) return emulated_gates[k];
  emulated_fail("a barrier of copies has not been made");
  return *emulated_gates;
}
static void tensor_expect(void* place, int bytes) {
  emulated_gate& gate = emulated_gate_at(place);
  if (gate.expected) emulated_fail("a barrier expects bytes anew before a thread has waited for the last ones");
  gate.expected = emulated_turn, gate.lacks += bytes;
}
// Copies arrive in a later turn than that in which a thread begins to wait for them, so threads that ask for another
// parity miss them.
static void tensor_await(void* place, int parity) {
  emulated_gate& gate = emulated_gate_at(place);
  if (gate.opened % 2 != parity) return;
  emulated_yield();
  while (gate.opened % 2 == parity) {
    if (gate.expected && gate.expected < emulated_turn) {
      emulated_end_copies([&](const emulated_copy& copy) {
        const bool ends = copy.barrier == place;
        if (ends) gate.lacks -= emulated_arrive(copy);
        return ends;
      });
      if (!gate.lacks) {
        ++gate.opened, gate.expected = 0;
        return;
      }
    }
    emulated_wait(gate.expected ? "copies bring other bytes than their barrier expects"
                                : "threads wait for copies that no thread starts, or with the wrong parity");
  }
}
// Copies from shared memory read what was written there even if nobody published it.
static void tensor_publish() {}

static void tensor_leave(const void* from, tensor_map map, int a, int b, int c, int d) {
  emulated_box(from, map, {a, b, c, d}, [](const char* here, char* there) {
    if (there) __builtin_memcpy(there, here, SIZE);
  });
  emulated_begin_copy({threadIdx.x, (void*)from, nullptr, map, {a, b, c, d}});
}
template <int LEFT>
static void tensor_await_reads() {
  int own = 0;
  for (int k = 0; k < emulated_started; ++k)
    own += !emulated_copies[k].barrier && emulated_copies[k].thread == threadIdx.x;
  emulated_end_copies([&](const emulated_copy& copy) {
    if (copy.barrier || copy.thread != threadIdx.x || own-- <= LEFT) return false;
    bool same = true;
    emulated_box(copy.shared, copy.map, copy.first, [&](const char* here, const char* there) {
      same = same && (!there || !__builtin_memcmp(here, there, SIZE));
    });
    if (!same) emulated_fail("shared memory changed before a copy had read it");
    return true;
  });
}
static void tensor_await_writes() { tensor_await_reads<0>(); }

// A block's shared memory may be another's once it has ended.
static const bool emulated_copies_are_checked = (emulated_end_block = [] {
  if (emulated_started) emulated_report("a block ended before its copies");
  emulated_started = emulated_made = 0;
}, true);
