// Copies products by distance to maps, and sums maps by distance: one warp per
// row.
#include "kernels/cuda/run.h"
#include "kernels/cuda/warp_rows.cuh"
#include "kernels/relative_cells.h"

namespace ea::cuda {

namespace {

__device__ inline std::int64_t clip(std::int64_t x, std::int64_t low,
                                    std::int64_t high) {
  return x < low ? low : x > high ? high : x;
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    cells_kernel(MapRows maps, const T* x, T* y, std::int64_t width) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const QueryRow at(maps, row);
  const std::int64_t furthest = width / 2;
  x += at.place * width + furthest;
  y += at.cell;
  for (std::int64_t j = warp_lane(); j < at.keys; j += kWarp) {
    y[j] = x[clip(j - at.token, -furthest, furthest)];
  }
}

// Returns the sum of x[begin .. end) to all lanes; each lane accumulates every
// 32nd element.
template <typename T>
__device__ inline float sum_of_cells(const T* x, std::int64_t begin,
                                     std::int64_t end) {
  float total = 0.0f;
  for (std::int64_t j = begin + warp_lane(); j < end; j += kWarp) {
    total += static_cast<float>(x[j]);
  }
  return warp_reduce(total);
}

// Cells [0, below) have distance -D or less and are summed into the first
// column; cells [above, keys) have D or more and go to the last. Each other
// cell has its own column. With D = 0 there is one column.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    sums_kernel(MapRows maps, const T* x, T* y, std::int64_t width) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const QueryRow at(maps, row);
  const std::int64_t furthest = width / 2;
  const int lane = warp_lane();
  x += at.cell;
  y += at.place * width;
  const std::int64_t below =
      furthest == 0 ? at.keys : clip(at.token - furthest + 1, 0, at.keys);
  const float low = sum_of_cells(x, 0, below);
  if (lane == 0) y[0] = T(low);
  if (furthest == 0) return;
  const std::int64_t above = clip(at.token + furthest, below, at.keys);
  const float high = sum_of_cells(x, above, at.keys);
  if (lane == 0) y[width - 1] = T(high);
  for (std::int64_t e = 1 + lane; e < width - 1; e += kWarp) {
    const std::int64_t j = at.token + e - furthest;
    y[e] = j >= below && j < above ? x[j] : T(0.0f);
  }
}

template <typename T>
void relative_cells_of(const RelativeCells::Args& args) {
  launch_map_rows(args.layout, cells_kernel<T>, args.x.as<const T>(),
                  args.y.as<T>(), args.x.dim(1));
}

template <typename T>
void relative_sums_of(const RelativeSums::Args& args) {
  launch_map_rows(args.layout, sums_kernel<T>, args.x.as<const T>(),
                  args.y.as<T>(), args.y.dim(1));
}

}  // namespace

EA_RUN_CUDA(RelativeCells, relative_cells_of, y)
EA_RUN_CUDA(RelativeSums, relative_sums_of, y)

}  // namespace ea::cuda
