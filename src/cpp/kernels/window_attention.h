// Contract: attention within windows; cells outside them cost no work.
#pragma once

#include "kernels/window_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// maps = scale x_i^h . y_j^g for each existing cell: row i of head h, token j
// of head g (kernels/window_layout.h), a neighbour for keys or `of_values`; 0
// elsewhere. x, y: contiguous [tokens, heads * d], head h has columns h d ..
// (h+1) d. maps: flat maps in `layout`. Sums are in float32 (float64 for
// float64). All this also holds for the kernels below.
struct WindowProducts {
  static constexpr const char* name = "window_products";
  struct Args {
    TensorView x, y;
    Output maps;
    double scale;
    bool of_values;
    WindowLayout layout;
  };
};

// to_i^h = scale sum of maps x_j^g over the cells of row i and head h if
// of_queries, else to_j^g = scale sum of maps x_i^h over the cells that read
// token j of head g. Fully written.
struct WindowSums {
  static constexpr const char* name = "window_sums";
  struct Args {
    TensorView maps, x;
    Output to;
    double scale;
    bool of_queries, of_values;
    WindowLayout layout;
  };
};

// y = softmax of scale x over the existing cells of each row and head, 0
// elsewhere. If an existing cell of a row holds a NaN or +inf, all its existing
// cells become NaN.
struct WindowSoftmax {
  static constexpr const char* name = "window_softmax";
  struct Args {
    TensorView x;
    Output y;
    double scale;
    WindowLayout layout;
  };
};

// dx = scale y (dy - sum of dy y over the row), from the saved output y; 0 in
// cells that do not exist.
struct WindowSoftmaxBackward {
  static constexpr const char* name = "window_softmax_backward";
  struct Args {
    TensorView dy, y;
    Output dx;
    double scale;
    WindowLayout layout;
  };
};

// Maps of windows, and the same cells as contiguous [sequences, heads, T,
// span S], of one dtype. The cell of query token i and key token j in neighbour
// a of `span` is at row q_columns[i] and column a S + k_columns[j]. The columns
// are int64 [tokens]; if undefined, they are the positions of the tokens in
// their sequence.
template <typename Flat, typename Dense>
struct PaddedWindows {
  Flat flat;
  Dense dense;
  TensorView q_columns, k_columns;  // each optional
  WindowLayout layout;
};

// Fills dense from flat; 0 where no cell exists.
struct UnpackWindows {
  static constexpr const char* name = "unpack_windows";
  using Args = PaddedWindows<TensorView, Output>;
};

// Fills flat from dense; 0 where no cell exists.
struct PackWindows {
  static constexpr const char* name = "pack_windows";
  using Args = PaddedWindows<Output, TensorView>;
};

}  // namespace ea
