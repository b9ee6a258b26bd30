// Reference for unpacking flat maps to one dense array, and packing them.
#include <algorithm>

#include "kernels/ref/map_cells.h"
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
  for_each_map_cell(layout, [&](const MapCell& cell) {
    const std::int64_t b = cell.b;
    const std::int64_t row =
        (b * layout.heads + cell.h) * maps.dense.dim(2) +
        column(maps.q_columns, layout.q_offsets[b], cell.i);
    fn(cell.at, row * maps.dense.dim(3) +
                    column(maps.k_columns, layout.k_offsets[b], cell.j));
  });
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
