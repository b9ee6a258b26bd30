// Contract: scores Q K^T and context P V, for each sequence and head.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// S[h, i, j] = scale q_i^h . k_j^h for each sequence. q [total queries, heads *
// d], k [total keys, heads * d]: head h has columns h d .. (h+1) d, the last
// stride is 1, row strides are arbitrary. scores: flat maps in `layout`, which
// defines the existing cells. All this also holds for the kernels below.
struct AttentionScores {
  static constexpr const char* name = "attention_scores";
  struct Args {
    TensorView q, k;
    Output scores;
    double scale;
    MapLayout layout;
  };
};

// dq_i = scale sum_j dS_ij k_j, dk_j = scale sum_i dS_ij q_i. dq and dk are
// contiguous [tokens, heads * d] and fully written.
struct AttentionScoresBackward {
  static constexpr const char* name = "attention_scores_backward";
  struct Args {
    TensorView dscores, q, k;
    Output dq, dk;
    double scale;
    MapLayout layout;
  };
};

// y_i^h = sum_j P[h, i, j] v_j^h; y contiguous [total queries, heads * d].
struct AttentionContext {
  static constexpr const char* name = "attention_context";
  struct Args {
    TensorView p, v;
    Output y;
    MapLayout layout;
  };
};

// dP_ij = dy_i . v_j, dv_j = sum_i P_ij dy_i. dv is contiguous and fully
// written.
struct AttentionContextBackward {
  static constexpr const char* name = "attention_context_backward";
  struct Args {
    TensorView dy, p, v;
    Output dp, dv;
    MapLayout layout;
  };
};

}  // namespace ea
