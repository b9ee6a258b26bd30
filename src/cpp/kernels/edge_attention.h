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

// maps[e, h] = scale x[i, h] . y[j, h] for edge e from key j to query i; x
// [queries, heads d], y [keys, heads d]. Head h has columns h d .. (h + 1) d.
struct EdgeProducts {
  static constexpr const char* name = "edge_products";
  struct Args {
    TensorView x, y;
    Output maps;
    double scale;
    EdgeLayout layout;
  };
};

// to[i, h] = scale sum of maps[e, h] x[j, h] over the edges that enter query i
// if of_queries, else to[j, h] = scale sum of maps[e, h] x[i, h] over the edges
// that leave key j; in the order of the edge numbers, 0 without edges.
struct EdgeSums {
  static constexpr const char* name = "edge_sums";
  struct Args {
    TensorView maps, x;
    Output to;
    double scale;
    bool of_queries;
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

}  // namespace ea
