/* A call by the addresses of tensors.

To tell a library what a tensor looks like takes Python longer than a small kernel runs. A library's
tensors look alike in every call, so each library is told once, by `describe`, and has functions of
addresses alone: `at` on a CPU, `on_stream` on a GPU. All are of TVM's foreign function interface. */

#ifdef __cplusplus
extern "C" {
#endif

enum { MOST_TENSORS = 8, MOST_AXES = 6, INTEGER = 1, TENSOR = 7 }; /* TVMFFITypeIndex's numbers */
enum { CPU = 1, CUDA = 2 };                                        /* DLDeviceType's */

typedef struct {
  int type;
  int padding;
  union {
    long long integer;
    void *pointer;
  } value;
} Any; /* TVMFFIAny of tvm-ffi's c_api.h */

typedef struct {
  void *data;
  int device_type, device_id;
  int axes;
  unsigned char code, bits;
  unsigned short lanes;
  long long *shape, *strides;
  unsigned long long offset;
} Tensor; /* DLTensor of DLPack's dlpack.h */

extern int __tvm_ffi_main(void *self, const Any *given, int count, Any *result);
/* tvm-ffi's c_env_api.h: of this thread */
extern int TVMFFIEnvSetStream(int type, int id, void *stream, void **before);

static Tensor tensors[MOST_TENSORS];
static long long shapes[MOST_TENSORS][MOST_AXES], strides[MOST_TENSORS][MOST_AXES];

/* The number of a tensor, DLPack's code and bits of its dtype, and its shape. It is contiguous.
Returns -1 if there are more tensors or axes than are kept. */
int __tvm_ffi_describe(void *self, const Any *given, int count, Any *result) {
  long long number = given[0].value.integer, step = 1;
  int axes = count - 3;
  (void)self;
  result->type = INTEGER;
  result->value.integer = -1;
  if (number >= MOST_TENSORS || axes > MOST_AXES)
    return 0;
  for (int axis = axes - 1; axis >= 0; axis--) {
    shapes[number][axis] = given[3 + axis].value.integer;
    strides[number][axis] = step;
    step *= shapes[number][axis];
  }
  Tensor made = {0,  CPU, 0, axes, (unsigned char)given[1].value.integer,
                 (unsigned char)given[2].value.integer, 1, shapes[number], strides[number], 0};
  tensors[number] = made;
  result->value.integer = 0;
  return 0;
}

static int call(void *self, int type, int id, const Any *given, int count, Any *result) {
  Tensor here[MOST_TENSORS];
  Any taken[MOST_TENSORS];
  for (int number = 0; number < count; number++) {
    here[number] = tensors[number];
    here[number].device_type = type;
    here[number].device_id = id;
    here[number].data = given[number].value.pointer;
    taken[number].type = TENSOR;
    taken[number].padding = 0;
    taken[number].value.pointer = &here[number];
  }
  return __tvm_ffi_main(self, taken, count, result);
}

/* The kernel on the tensors at these addresses, in the order of the library's arguments. */
int __tvm_ffi_at(void *self, const Any *given, int count, Any *result) {
  return call(self, CPU, 0, given, count, result);
}

/* The same on a GPU of that number, queued on that stream, which are given before the addresses. */
int __tvm_ffi_on_stream(void *self, const Any *given, int count, Any *result) {
  int id = (int)given[0].value.integer;
  void *before;
  int failed = TVMFFIEnvSetStream(CUDA, id, given[1].value.pointer, &before);
  if (failed)
    return failed;
  failed = call(self, CUDA, id, given + 2, count - 2, result);
  TVMFFIEnvSetStream(CUDA, id, before, 0);
  return failed;
}

#ifdef __cplusplus
}
#endif
