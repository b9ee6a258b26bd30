// Contract: dense attention from queries, keys and values to the context. The
// evolving step, softmax and dropout are fused; maps are not stored.
#pragma once

#include <cstdint>

#include "kernels/evolve.h"
#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// Arguments of forward and backward. q [total queries, heads * d], k [total
// keys, heads * d], v [total keys, heads * e], as in kernels/attention.h: the
// last stride is 1, row strides are arbitrary. y [total queries, heads * e].
// previous: flat maps, undefined if a = p = 0. weight, bias: those of the
// convolution, undefined if w = 0. score_bias: flat maps B, added to the
// scores. Both kernels may round a map that is an operand of a product
// (dropout(P), dS) to the dtype of the tensors, as ops that store it do.
struct FusedAttention {
  TensorView q, k, v;
  TensorView previous;      // optional
  TensorView weight, bias;  // optional
  EvolveCoefficients c;
  double scale;          // factor of the scores
  double softmax_scale;  // t
  double p;              // dropout, 0 <= p < 1
  std::uint64_t seed, stream;
  MapLayout layout;            // defines the existing cells
  MapShift shift = {};         // of the convolution
  TensorView score_bias = {};  // optional
};

// S = scale Q K^T + B; I = a M + b S; Z = Conv(I); L = p M + s S + w ReLU(Z),
// rounded to the dtype of the tensors; P = softmax(t L); y = dropout(P) V. Cell
// i of the flat maps is dropped if kernels/dropout.h drops element i.
// carry: L.
// statistics [rows, 2], float64 for float64, else float32: for each row, the
// maximum of t L and 1 / sum of exp(t L - maximum), or 0 and 0 if no cell of
// the row exists. Row (h, i) of sequence b has number heads q_offsets[b] + h
// n_q + i.
// gates, uint8 [gate_bytes()]: bit j % 8 of byte gate_byte(first cell of the
// row, row) + j / 8 is set unless Z <= 0.
struct FusedAttentionForward {
  static constexpr const char* name = "fused_attention_forward";
  struct Args {
    FusedAttention in;
    Output y;
    Output carry, statistics, gates;  // each optional
  };
};

// Computes all gradients from dy and, if given, dcarry. carry may be omitted if
// w = 0: L is then recomputed. dprevious and dscore_bias (= dS) are undefined
// if their input is undefined or the gradient is not wanted, dweight and dbias
// if w = 0. All other outputs are fully written; dq, dk, dv are contiguous.
struct FusedAttentionBackward {
  static constexpr const char* name = "fused_attention_backward";
  struct Args {
    FusedAttention in;
    TensorView dy;
    TensorView dcarry, carry;  // optional
    TensorView statistics, gates;
    Output dq, dk, dv;
    Output dprevious, dweight, dbias;  // optional
    Output dscore_bias = {};           // optional
  };
};

constexpr std::int64_t gate_byte(std::int64_t cell, std::int64_t row) {
  return cell / 8 + row;
}
constexpr std::int64_t gate_bytes(std::int64_t cells, std::int64_t rows) {
  return cells / 8 + rows + 2;
}

}  // namespace ea
