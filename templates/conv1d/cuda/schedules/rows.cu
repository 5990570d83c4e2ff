// Rows of the output, each of one row of the input and one kernel, BLOCKS blocks for each.
constexpr int ALL_ROWS = @ROWS@, FILTERS_OF_ALL = @F@, FILTERS_OF_ONE = @SEVERAL@;
constexpr int ROW_BLOCKS = @BLOCKS@;
constexpr long long ROW_OF_X = @ROW_OF_X@, ROW_OF_W = @ROW_OF_W@, ROW_OF_Y = @ROW_OF_Y@;

// Which block of its row it is.
__device__ __forceinline__ int conv1d_block() { return ALL_ROWS == 1 ? blockIdx.x : blockIdx.x % ROW_BLOCKS; }

// `bias` and `residual` are the row's.
__device__ __forceinline__ void conv1d_@NAME@(const void* __restrict__ x, const void* __restrict__ w, float bias,
                                              const char* residual, void* __restrict__ y, word* shared);

__device__ __forceinline__ void conv1d_rows(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                            void* __restrict__ y, word* shared) {
  const int row = ALL_ROWS == 1 ? 0 : blockIdx.x / ROW_BLOCKS;
  conv1d_@NAME@((const char*)x + row / FILTERS_OF_ONE * ROW_OF_X, (const char*)w + row % FILTERS_OF_ALL * ROW_OF_W,
                epilogue_bias(@BIAS@, row % FILTERS_OF_ALL), (const char*)@RESIDUAL@ + row * ROW_OF_Y,
                (char*)y + row * ROW_OF_Y, shared);
}
