// Copies flat maps to one dense array and back: one warp per row of a flat map.
#include "kernels/copy.h"
#include "kernels/cuda/dense_maps.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/warp_rows.cuh"
#include "kernels/unpack_maps.h"

namespace ea::cuda {

namespace {

// Copies flat to dense if kUnpack, else dense to flat.
template <typename T, bool kUnpack>
__global__ void __launch_bounds__(kRowThreads)
    copy_kernel(MapRows maps, const T* from, T* to, DenseMaps dense) {
  const std::int64_t row = warp_row();
  if (row >= maps.rows()) return;
  const QueryRow at(maps, row);
  const int b = at.sequence;
  const std::int64_t dense_row = dense.q_columns == nullptr
                                     ? at.token
                                     : dense.q_columns[maps.q[b] + at.token];
  const std::int64_t place =
      ((b * maps.heads + at.head) * dense.rows + dense_row) * dense.width;
  for (std::int64_t j = warp_lane(); j < at.keys; j += kWarp) {
    const std::int64_t column =
        dense.k_columns == nullptr ? j : dense.k_columns[maps.k[b] + j];
    if constexpr (kUnpack) {
      to[place + column] = from[at.cell + j];
    } else {
      to[at.cell + j] = from[place + column];
    }
  }
}

template <typename T>
void unpack_maps_of(const UnpackMaps::Args& args) {
  if (args.flat.numel() < args.dense.numel()) run<Fill>({args.dense, 0.0});
  launch_copies<T, true>(args, args.layout, copy_kernel<T, true>);
}

template <typename T>
void pack_maps_of(const PackMaps::Args& args) {
  launch_copies<T, false>(args, args.layout, copy_kernel<T, false>);
}

}  // namespace

EA_RUN_CUDA(UnpackMaps, unpack_maps_of, dense)
EA_RUN_CUDA(PackMaps, pack_maps_of, flat)

}  // namespace ea::cuda
