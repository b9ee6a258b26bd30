// Copies products by distance along two axes to maps, and sums maps by
// distance: one warp per row.
#include "kernels/relative_2d.h"

#include "kernels/cuda/run.h"
#include "kernels/cuda/warp_rows.cuh"

namespace ea::cuda {

namespace {

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
__global__ void __launch_bounds__(kRowThreads)
    cells_kernel(MapRows maps, const T* rows, const T* columns, T* y, Sides s) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const QueryRow at(maps, row);
  rows += at.place * s.tall() + s.reach;
  columns += at.place * s.wide() + s.width - 1 - at.token % s.width;
  y += at.cell;
  for (std::int64_t j = warp_lane(); j < at.keys; j += kWarp) {
    y[j] = T(static_cast<float>(rows[s.down(at.token, j)]) +
             static_cast<float>(columns[j % s.width]));
  }
}

// Each lane computes its own sums in a loop over the keys.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    sums_kernel(MapRows maps, const T* x, T* rows, T* columns, Sides s) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const QueryRow at(maps, row);
  // Unsigned: with warp_lane() the kernel spills registers.
  const unsigned lane = threadIdx.x % kWarp;
  x += at.cell;
  for (std::int64_t e = lane; e < s.tall(); e += kWarp) {
    float sum = 0.0f;
    for (std::int64_t j = 0; j < at.keys; ++j) {
      if (s.down(at.token, j) == e - s.reach) sum += static_cast<float>(x[j]);
    }
    rows[at.place * s.tall() + e] = T(sum);
  }
  for (std::int64_t e = lane; e < s.wide(); e += kWarp) {
    const std::int64_t column = e - (s.width - 1) + at.token % s.width;
    float sum = 0.0f;
    if (column >= 0 && column < s.width) {
      for (std::int64_t j = column; j < at.keys; j += s.width) {
        sum += static_cast<float>(x[j]);
      }
    }
    columns[at.place * s.wide() + e] = T(sum);
  }
}

template <typename T>
void relative_2d_cells_of(const Relative2dCells::Args& args) {
  launch_map_rows(args.layout, cells_kernel<T>, args.rows.as<const T>(),
                  args.columns.as<const T>(), args.y.as<T>(),
                  sides_of(args.rows, args.columns));
}

template <typename T>
void relative_2d_sums_of(const Relative2dSums::Args& args) {
  launch_map_rows(args.layout, sums_kernel<T>, args.x.as<const T>(),
                  args.rows.as<T>(), args.columns.as<T>(),
                  sides_of(args.rows, args.columns));
}

}  // namespace

EA_RUN_CUDA(Relative2dCells, relative_2d_cells_of, y)
EA_RUN_CUDA(Relative2dSums, relative_2d_sums_of, x)

}  // namespace ea::cuda
