// Contract: flat maps to one dense array and back.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// Flat maps in `layout` and the same maps as contiguous [sequences, heads, T,
// S], of one dtype: cell (i, j) of sequence b lies at row
// q_columns[q_offsets[b]
// + i] and column k_columns[k_offsets[b] + j] there. The columns, int64 [total
// queries] and [total keys], rise within each sequence and stay below T and S;
// undefined, they are i and j.
template <typename Flat, typename Dense>
struct PaddedMaps {
  Flat flat;
  Dense dense;
  TensorView q_columns, k_columns;  // each optional
  MapLayout layout;
};

// dense from flat, fully written: zero outside the maps.
struct UnpackMaps {
  static constexpr const char* name = "unpack_maps";
  using Args = PaddedMaps<TensorView, Output>;
};

// flat from dense, fully written: what lies outside the maps is not read.
struct PackMaps {
  static constexpr const char* name = "pack_maps";
  using Args = PaddedMaps<Output, TensorView>;
};

}  // namespace ea
