// Contract: attention within windows; cells outside them cost no work.
#pragma once

#include "kernels/window_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// S = scale q_i^h . k_j^g for each existing cell: row i of head h, token j of
// head g (kernels/window_layout.h); 0 elsewhere. q, k: contiguous [tokens,
// heads * d], head h has columns h d .. (h+1) d. scores: flat maps in `layout`.
// Sums are in float32 (float64 for float64). All this also holds for the
// kernels below.
struct WindowScores {
  static constexpr const char* name = "window_scores";
  struct Args {
    TensorView q, k;
    Output scores;
    double scale;
    WindowLayout layout;
  };
};

// dq_i^h = scale sum of dS k_j^g over the cells of row i and head h, dk_j^g =
// scale sum of dS q_i^h over the cells that read k_j^g. Both are fully written.
struct WindowScoresBackward {
  static constexpr const char* name = "window_scores_backward";
  struct Args {
    TensorView dscores, q, k;
    Output dq, dk;
    double scale;
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

// y_i^h = sum of P v_j^g over the cells of row i and head h; fully written.
struct WindowContext {
  static constexpr const char* name = "window_context";
  struct Args {
    TensorView p, v;
    Output y;
    WindowLayout layout;
  };
};

// dP = dy_i^h . v_j^g, dv_j^g = sum of P dy_i^h over the cells that read v_j^g.
// Both are fully written.
struct WindowContextBackward {
  static constexpr const char* name = "window_context_backward";
  struct Args {
    TensorView dy, p, v;
    Output dp, dv;
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
