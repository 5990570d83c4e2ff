/* Parallel loops on OpenMP's threads.

A process with PyTorch has those threads already, and TVM's beside them would take the processors from
them. So each library for a CPU has the function `use_openmp` of TVM's foreign function interface. It is
given the addresses of an OpenMP runtime's functions, and from then on the library's loops run there.
Nothing of a runtime is linked: without the call the loops run on TVM's own threads. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  void *barrier;
  int tasks;
} Group; /* TVMParallelGroupEnv of TVM's c_backend_api.h */

typedef int (*Task)(int number, Group *group, void *data);
typedef int (*Launch)(Task task, void *data, int tasks);

typedef struct {
  int type;
  int padding;
  long long value;
} Any; /* TVMFFIAny of tvm-ffi's c_api.h, for integers */

typedef struct {
  Task task;
  void *data;
  int failed;
} Loop;

extern Launch __TVMBackendParallelLaunch __attribute__((weak)); /* missing if there is no such loop */

static Launch tvms;
static void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*thread_number)(void);
static int (*threads_of_team)(void);
static int (*threads_set)(void);
static int most;

static void run(void *given) {
  Loop *loop = (Loop *)given;
  int number = thread_number(), team = threads_of_team();
  Group group = {0, team < most ? team : most};
  if (number < group.tasks && loop->task(number, &group, loop->data) != 0)
    __atomic_store_n(&loop->failed, 1, __ATOMIC_RELAXED);
}

static int launch(Task task, void *data, int tasks) {
  Loop loop = {task, data, 0};
  if (tasks != 0) /* TVM's loops ask for no number of tasks; what does may wait at a barrier */
    return tvms(task, data, tasks);
  parallel(run, &loop, (unsigned)threads_set(), 0);
  return loop.failed ? tvms(task, data, tasks) : 0; /* that's TVM's to report */
}

/* Addresses of GOMP_parallel, omp_get_thread_num, omp_get_num_threads and of a function that says how
many threads the calling one may use; then the most tasks of a loop. */
int __tvm_ffi_use_openmp(void *self, const Any *given, int count, Any *result) {
  Launch own = launch;
  (void)self, (void)count, (void)result;
  if (&__TVMBackendParallelLaunch == 0 || __TVMBackendParallelLaunch == own)
    return 0;
  tvms = __TVMBackendParallelLaunch;
  parallel = (void (*)(void (*)(void *), void *, unsigned, unsigned))given[0].value;
  thread_number = (int (*)(void))given[1].value;
  threads_of_team = (int (*)(void))given[2].value;
  threads_set = (int (*)(void))given[3].value;
  most = (int)given[4].value;
  __atomic_store(&__TVMBackendParallelLaunch, &own, __ATOMIC_RELEASE);
  return 0;
}

#ifdef __cplusplus
}
#endif
