// Launches copies between flat maps and dense ones (kernels/unpack_maps.h).
#pragma once

#include "kernels/cuda/warp_rows.cuh"

namespace ea::cuda {

// Dense maps of the sequences of a launch, [sequence, head, rows, width], and
// the column indices or null.
struct DenseMaps {
  std::int64_t rows, width;
  const std::int64_t* q_columns;
  const std::int64_t* k_columns;
};

// Launches copy(rows of the flat maps, from, to, dense, more...) for all
// sequences: flat to dense if kUnpack, else dense to flat.
template <typename T, bool kUnpack, typename Maps, typename Kernel,
          typename... More>
void launch_copies(const Maps& args, const MapLayout& layout, Kernel copy,
                   const More&... more) {
  const DenseMaps dense{args.dense.dim(2), args.dense.dim(3),
                        args.q_columns.template as<const std::int64_t>(),
                        args.k_columns.template as<const std::int64_t>()};
  const std::int64_t sequence = layout.heads * dense.rows * dense.width;
  for (std::int64_t b = 0; b < layout.sequences; b += MapRows::kMost) {
    const MapRows maps = map_rows_from(layout, b);
    T* const flat = args.flat.template as<T>();
    T* const first = args.dense.template as<T>() + b * sequence;
    launch_rows(maps.rows(), copy, maps, kUnpack ? flat : first,
                kUnpack ? first : flat, dense, more...);
  }
}

}  // namespace ea::cuda
