// Copies flat maps to one dense array and back: one warp per row of a flat map.
#include "kernels/copy.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/map_rows.cuh"
#include "kernels/cuda/run.h"
#include "kernels/unpack_maps.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kRows = kThreads / kWarp;  // per block

// Dense maps of the sequences of a launch, [sequence, head, rows, width], and
// the column indices or null (kernels/unpack_maps.h).
struct DenseMaps {
  std::int64_t rows, width;
  const std::int64_t* q_columns;
  const std::int64_t* k_columns;
};

// Copies flat to dense if kUnpack, else dense to flat.
template <typename T, bool kUnpack>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(MapRows maps, const T* from, T* to, DenseMaps dense) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= maps.rows()) return;
  const TokenRow at = token_row(maps, maps.q, row);
  const int b = at.sequence;
  const std::int64_t keys = maps.k[b + 1] - maps.k[b];
  const std::int64_t flat = maps.cell(b, at.head, at.token);
  const std::int64_t dense_row = dense.q_columns == nullptr
                                     ? at.token
                                     : dense.q_columns[maps.q[b] + at.token];
  const std::int64_t place =
      ((b * maps.heads + at.head) * dense.rows + dense_row) * dense.width;
  for (std::int64_t j = threadIdx.x % kWarp; j < keys; j += kWarp) {
    const std::int64_t column =
        dense.k_columns == nullptr ? j : dense.k_columns[maps.k[b] + j];
    if constexpr (kUnpack) {
      to[place + column] = from[flat + j];
    } else {
      to[flat + j] = from[place + column];
    }
  }
}

template <typename T, bool kUnpack, typename Maps>
void copy_maps(const Maps& args) {
  const MapLayout& layout = args.layout;
  const DenseMaps dense{args.dense.dim(2), args.dense.dim(3),
                        args.q_columns.template as<const std::int64_t>(),
                        args.k_columns.template as<const std::int64_t>()};
  const std::int64_t sequence = layout.heads * dense.rows * dense.width;
  for (std::int64_t b = 0; b < layout.sequences; b += MapRows::kMost) {
    const MapRows maps = map_rows_from(layout, b);
    T* const flat = args.flat.template as<T>();
    T* const first = args.dense.template as<T>() + b * sequence;
    launch(current_stream(), blocks_for(maps.rows(), kRows), kThreads, 0,
           copy_kernel<T, kUnpack>, maps, kUnpack ? flat : first,
           kUnpack ? first : flat, dense);
  }
}

template <typename T>
void unpack_maps_of(const UnpackMaps::Args& args) {
  if (args.flat.numel() < args.dense.numel()) run<Fill>({args.dense, 0.0});
  copy_maps<T, true>(args);
}

template <typename T>
void pack_maps_of(const PackMaps::Args& args) {
  copy_maps<T, false>(args);
}

}  // namespace

EA_RUN_CUDA(UnpackMaps, unpack_maps_of, dense)
EA_RUN_CUDA(PackMaps, pack_maps_of, flat)

}  // namespace ea::cuda
