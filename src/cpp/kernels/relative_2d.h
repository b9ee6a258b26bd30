// Contract: spreads products by distance along the rows and columns of images
// over attention maps, and sums them back.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// The tokens of a sequence are the pixels of an image of width W, row by row:
// token t is pixel (t / W, t mod W). With rows [total queries * heads, 2 D + 1]
// and columns [total queries * heads, 2 W - 1],
//   y[b, h, i, j] = rows[r, D + clip(j / W - i / W, -D, D)]
//                 + columns[r, W - 1 + j mod W - i mod W],
// r = (q_offsets[b] + i) heads + h. y: flat maps in `layout`, fully written.
// All are contiguous and of one dtype; the sum is in float32 (float64 for
// float64).
struct Relative2dCells {
  static constexpr const char* name = "relative_2d_cells";
  struct Args {
    TensorView rows, columns;
    Output y;
    MapLayout layout;
  };
};

// Transpose of Relative2dCells: each element of rows and columns is the sum of
// the cells of x that read it, or zero if there is none. Both are fully
// written. Sums are in float32 (float64 for float64), in an order that depends
// only on the sizes.
struct Relative2dSums {
  static constexpr const char* name = "relative_2d_sums";
  struct Args {
    TensorView x;
    Output rows, columns;
    MapLayout layout;
  };
};

}  // namespace ea
