// Contract: products by distance along the rows and columns of images, spread
// over attention maps, and their sums.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// The tokens of a sequence are the pixels of an image of width W, row by row:
// token t is pixel (t / W, t mod W). With rows [total queries * heads, 2 D +
// 1] and columns [total queries * heads, 2 W - 1],
//   y[b, h, i, j] = rows[r, D + clip(j / W - i / W, -D, D)]
//                 + columns[r, W - 1 + j mod W - i mod W],
// r = (q_offsets[b] + i) heads + h; y flat maps in `layout`, fully written.
// Contiguous, of one dtype; the sum in float32 (float64 for float64).
struct Relative2dCells {
  static constexpr const char* name = "relative_2d_cells";
  struct Args {
    TensorView rows, columns;
    Output y;
    MapLayout layout;
  };
};

// The transpose: each place of rows and columns gets the sum of the cells of x
// that read it, zero where there is none; both fully written. Sums in float32
// (float64 for float64), in an order that depends on the sizes alone.
struct Relative2dSums {
  static constexpr const char* name = "relative_2d_sums";
  struct Args {
    TensorView x;
    Output rows, columns;
    MapLayout layout;
  };
};

}  // namespace ea
