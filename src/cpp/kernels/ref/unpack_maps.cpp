// Reference for unpacking flat maps to one dense array, and packing them.
#include <algorithm>

#include "kernels/ref/run.h"
#include "kernels/unpack_maps.h"

namespace ea::ref {

namespace {

std::int64_t column(const TensorView& columns, std::int64_t begin,
                    std::int64_t i) {
  return columns.defined() ? columns.as<const std::int64_t>()[begin + i] : i;
}

// Calls fn(cell, place) for each cell of the flat maps, in order: `place` is
// the cell's element of the dense array.
template <typename Maps, typename Fn>
void for_each_place(const Maps& maps, Fn&& fn) {
  const MapLayout& layout = maps.layout;
  std::int64_t cell = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      for (std::int64_t i = 0; i < layout.n_q(b); ++i) {
        const std::int64_t row = (b * layout.heads + h) * maps.dense.dim(2) +
                                 column(maps.q_columns, layout.q_offsets[b], i);
        for (std::int64_t j = 0; j < layout.n_k(b); ++j) {
          fn(cell++, row * maps.dense.dim(3) +
                         column(maps.k_columns, layout.k_offsets[b], j));
        }
      }
    }
  }
}

template <typename T>
void unpack_maps_of(const UnpackMaps::Args& maps) {
  const T* flat = maps.flat.as<const T>();
  T* dense = maps.dense.as<T>();
  std::fill_n(dense, maps.dense.numel(), T(0.0f));
  for_each_place(maps, [&](std::int64_t cell, std::int64_t place) {
    dense[place] = flat[cell];
  });
}

template <typename T>
void pack_maps_of(const PackMaps::Args& maps) {
  const T* dense = maps.dense.as<const T>();
  T* flat = maps.flat.as<T>();
  for_each_place(maps, [&](std::int64_t cell, std::int64_t place) {
    flat[cell] = dense[place];
  });
}

}  // namespace

EA_RUN_REF(UnpackMaps, unpack_maps_of, dense)
EA_RUN_REF(PackMaps, pack_maps_of, flat)

}  // namespace ea::ref
