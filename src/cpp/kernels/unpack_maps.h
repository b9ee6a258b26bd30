// Contract: conversion of flat maps to one dense array and back.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// Flat maps in `layout`, and the same maps as contiguous [sequences, heads, T,
// S], of one dtype. Cell (i, j) of sequence b is at row
// q_columns[q_offsets[b] + i] and column k_columns[k_offsets[b] + j] of the
// dense array. q_columns, int64 [total queries], and k_columns, int64 [total
// keys], increase within each sequence and stay below T and S. If undefined,
// they are i and j.
template <typename Flat, typename Dense>
struct PaddedMaps {
  Flat flat;
  Dense dense;
  TensorView q_columns, k_columns;  // each optional
  MapLayout layout;
};

// Fills dense from flat, with zeros outside the maps.
struct UnpackMaps {
  static constexpr const char* name = "unpack_maps";
  using Args = PaddedMaps<TensorView, Output>;
};

// Fills flat from dense; cells outside the maps are not read.
struct PackMaps {
  static constexpr const char* name = "pack_maps";
  using Args = PaddedMaps<Output, TensorView>;
};

}  // namespace ea
