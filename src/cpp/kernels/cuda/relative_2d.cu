// Copies products by distance along two axes to maps, and sums maps by
// distance: one warp per row.
#include "kernels/relative_2d.h"

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/map_rows.cuh"
#include "kernels/cuda/run.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kRows = kThreads / kWarp;  // per block

// Sizes of both arrays: distances up to `reach` rows, images `width` wide.
struct Sides {
  std::int64_t reach, width;

  EA_HOST_DEVICE std::int64_t tall() const { return 2 * reach + 1; }
  EA_HOST_DEVICE std::int64_t wide() const { return 2 * width - 1; }
  __device__ std::int64_t down(std::int64_t i, std::int64_t j) const {
    const std::int64_t distance = j / width - i / width;
    return distance < -reach ? -reach : distance > reach ? reach : distance;
  }
};

Sides sides_of(const TensorView& rows, const TensorView& columns) {
  return {rows.dim(1) / 2, columns.dim(1) / 2 + 1};
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    cells_kernel(MapRows maps, const T* rows, const T* columns, T* y, Sides s) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= maps.rows()) return;
  const TokenRow at = token_row(maps, maps.q, row);
  const int b = at.sequence;
  const std::int64_t keys = maps.k[b + 1] - maps.k[b];
  const std::int64_t place = (maps.q[b] + at.token) * maps.heads + at.head;
  rows += place * s.tall() + s.reach;
  columns += place * s.wide() + s.width - 1 - at.token % s.width;
  y += maps.cell(b, at.head, at.token);
  for (std::int64_t j = threadIdx.x % kWarp; j < keys; j += kWarp) {
    y[j] = T(static_cast<float>(rows[s.down(at.token, j)]) +
             static_cast<float>(columns[j % s.width]));
  }
}

// Each lane computes its own sums in a loop over the keys.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(MapRows maps, const T* x, T* rows, T* columns, Sides s) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= maps.rows()) return;
  const TokenRow at = token_row(maps, maps.q, row);
  const int b = at.sequence;
  const std::int64_t keys = maps.k[b + 1] - maps.k[b];
  const std::int64_t place = (maps.q[b] + at.token) * maps.heads + at.head;
  x += maps.cell(b, at.head, at.token);
  for (std::int64_t e = threadIdx.x % kWarp; e < s.tall(); e += kWarp) {
    float sum = 0.0f;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (s.down(at.token, j) == e - s.reach) sum += static_cast<float>(x[j]);
    }
    rows[place * s.tall() + e] = T(sum);
  }
  for (std::int64_t e = threadIdx.x % kWarp; e < s.wide(); e += kWarp) {
    const std::int64_t column = e - (s.width - 1) + at.token % s.width;
    float sum = 0.0f;
    if (column >= 0 && column < s.width) {
      for (std::int64_t j = column; j < keys; j += s.width) {
        sum += static_cast<float>(x[j]);
      }
    }
    columns[place * s.wide() + e] = T(sum);
  }
}

template <typename T>
void relative_2d_cells_of(const Relative2dCells::Args& args) {
  for_map_rows(args.layout, [&](const MapRows& maps) {
    launch(current_stream(), blocks_for(maps.rows(), kRows), kThreads, 0,
           cells_kernel<T>, maps, args.rows.as<const T>(),
           args.columns.as<const T>(), args.y.as<T>(),
           sides_of(args.rows, args.columns));
  });
}

template <typename T>
void relative_2d_sums_of(const Relative2dSums::Args& args) {
  for_map_rows(args.layout, [&](const MapRows& maps) {
    launch(current_stream(), blocks_for(maps.rows(), kRows), kThreads, 0,
           sums_kernel<T>, maps, args.x.as<const T>(), args.rows.as<T>(),
           args.columns.as<T>(), sides_of(args.rows, args.columns));
  });
}

}  // namespace

EA_RUN_CUDA(Relative2dCells, relative_2d_cells_of, y)
EA_RUN_CUDA(Relative2dSums, relative_2d_sums_of, x)

}  // namespace ea::cuda
