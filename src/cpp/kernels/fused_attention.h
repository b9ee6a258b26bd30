// Contract: dense attention from queries, keys and values to the context, with
// the evolving step, softmax and dropout in between, without stored maps.
#pragma once

#include <cstdint>

#include "kernels/evolve.h"
#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// What both directions are told. q [total queries, heads * d], k [total keys,
// heads * d], v [total keys, heads * e] as in kernels/attention.h: last stride
// 1, row strides free; y [total queries, heads * e].
// previous: flat maps, undefined where a = p = 0; weight, bias: those of the
// convolution, undefined where w = 0. score_bias: flat maps B that are added to
// the scores. Both directions may round a map that goes into a
// product (dropout(P), dS) to the type of the tensors, as ops that store it do.
struct FusedAttention {
  TensorView q, k, v;
  TensorView previous;      // optional
  TensorView weight, bias;  // optional
  EvolveCoefficients c;
  double scale;          // of the scores
  double softmax_scale;  // t
  double p;              // dropout, 0 <= p < 1
  std::uint64_t seed, stream;
  MapLayout layout;            // says what cells exist
  MapShift shift = {};         // of the convolution
  TensorView score_bias = {};  // optional
};

// S = scale Q K^T + B; I = a M + b S; Z = Conv(I); L = p M + s S + w ReLU(Z),
// rounded to the type of the tensors; P = softmax(t L); y = dropout(P) V, where
// cell i of the flat maps is dropped as element i of kernels/dropout.h is.
// carry: L. For row (h, i) of sequence b, number heads q_offsets[b] + h n_q +
// i: statistics [rows, 2] (float64 for float64, else float32): the greatest t L
// and 1 / sum of exp(t L - greatest); gates, uint8 [gate_bytes()]: bit j % 8 of
// byte gate_byte(first cell of the row, row) + j / 8 is set unless Z <= 0. A
// row in which no cell exists has statistics 0 and 0.
struct FusedAttentionForward {
  static constexpr const char* name = "fused_attention_forward";
  struct Args {
    FusedAttention in;
    Output y;
    Output carry, statistics, gates;  // each optional
  };
};

// All gradients from that of y and, if there is one, of the carry. carry may be
// left out where w = 0: L is computed again. dprevious is undefined where
// previous is, or not wanted; dscore_bias (dS) likewise; dweight and dbias
// where w = 0; all others are fully written, dq, dk, dv contiguous.
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
