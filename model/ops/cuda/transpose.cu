#include "model/ops/cuda/transpose.h"

#include "model/device/cuda/launch.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 256;
constexpr int kTile = 32;  // rows and columns

// to [batch, columns, rows] = from [batch, rows, columns], by tiles that are read and written in
// whole cache lines.
__global__ __launch_bounds__(kThreads) void transpose_kernel(float* to, const float* from, int rows,
                                                             int columns) {
  __shared__ float tile[kTile][kTile + 1];  // columns in different banks
  const std::int64_t matrix = std::int64_t{blockIdx.z} * rows * columns;
  const int first_row = static_cast<int>(blockIdx.x) * kTile;
  const int first_column = static_cast<int>(blockIdx.y) * kTile;
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  for (int i = y; i < kTile; i += kThreads / kTile) {
    const int row = first_row + i, column = first_column + x;
    if (row < rows && column < columns)
      tile[i][x] = from[matrix + std::int64_t{row} * columns + column];
  }
  __syncthreads();
  for (int i = y; i < kTile; i += kThreads / kTile) {
    const int row = first_row + x, column = first_column + i;
    if (row < rows && column < columns) to[matrix + std::int64_t{column} * rows + row] = tile[x][i];
  }
}

}  // namespace

void transpose(Stream& stream, Tensor to, Tensor from) {
  const std::int64_t batch = from.shape[0], rows = from.shape[1], columns = from.shape[2];
  launch(transpose_kernel,
         dim3(extent(parts(rows, kTile)), extent(parts(columns, kTile)), extent(batch)), kThreads,
         0, stream, to.as<float>(), from.as<float>(), static_cast<int>(rows),
         static_cast<int>(columns));
}

}  // namespace trireme::ops::cuda
