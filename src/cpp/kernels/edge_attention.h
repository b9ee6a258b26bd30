// Contract: attention along the edges of a graph (kernels/edge_layout.h).
#pragma once

#include "kernels/edge_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// y[e, :] = u[i, :] + v[j, :] for edge e from key j to query i. u [queries,
// width], v [keys, width], y [edges, width]. All tensors here and below are
// contiguous and of one dtype. Additions are in float32 (float64 for float64).
struct EdgePairSum {
  static constexpr const char* name = "edge_pair_sum";
  struct Args {
    TensorView u, v;
    Output y;
    EdgeLayout layout;
  };
};

// du[i, :] = sum of dy[e, :] over the edges that enter query i, dv[j, :] = sum
// of dy[e, :] over the edges that leave key j, in the order of the edge
// numbers. Both are fully written; an undefined output is not computed.
struct EdgePairSumBackward {
  static constexpr const char* name = "edge_pair_sum_backward";
  struct Args {
    TensorView dy;
    Output du, dv;  // each optional
    EdgeLayout layout;
  };
};

// S[e, h] = scale q[i, h] . k[j, h]; q [queries, heads d], k [keys, heads d].
// Head h has columns h d .. (h + 1) d.
struct EdgeScores {
  static constexpr const char* name = "edge_scores";
  struct Args {
    TensorView q, k;
    Output scores;
    double scale;
    EdgeLayout layout;
  };
};

// dq[i, h] = scale sum of dS[e, h] k[j, h] over the edges that enter query i,
// dk[j, h] = scale sum of dS[e, h] q[i, h] over the edges that leave key j.
// Order and undefined outputs are as in EdgePairSumBackward.
struct EdgeScoresBackward {
  static constexpr const char* name = "edge_scores_backward";
  struct Args {
    TensorView dscores, q, k;
    Output dq, dk;  // each optional
    double scale;
    EdgeLayout layout;
  };
};

// y = softmax of scale x over the edges that enter each query, head by head.
struct EdgeSoftmax {
  static constexpr const char* name = "edge_softmax";
  struct Args {
    TensorView x;
    Output y;
    double scale;
    EdgeLayout layout;
  };
};

// dx = scale y (dy - sum of dy y) over the same edges, from the saved output y.
struct EdgeSoftmaxBackward {
  static constexpr const char* name = "edge_softmax_backward";
  struct Args {
    TensorView dy, y;
    Output dx;
    double scale;
    EdgeLayout layout;
  };
};

// y[i, h] = sum of P[e, h] v[j, h] over the edges that enter query i, in the
// order of the edge numbers; 0 for a query without edges.
struct EdgeContext {
  static constexpr const char* name = "edge_context";
  struct Args {
    TensorView p, v;
    Output y;
    EdgeLayout layout;
  };
};

// dP[e, h] = dy[i, h] . v[j, h]; dv[j, h] = sum of P[e, h] dy[i, h] over the
// edges that leave key j, in the order of the edge numbers.
struct EdgeContextBackward {
  static constexpr const char* name = "edge_context_backward";
  struct Args {
    TensorView dy, p, v;
    Output dp, dv;  // each optional
    EdgeLayout layout;
  };
};

}  // namespace ea
