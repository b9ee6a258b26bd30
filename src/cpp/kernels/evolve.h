// Contract: the evolving step of attention maps in closed form.
#pragma once

#include "kernels/map_conv.h"
#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// I = a M + b S,   L = p M + s S + w ReLU(Conv(I)): see EvolveForward.
struct EvolveCoefficients {
  double a, b, p, s, w;
};
// L = S: every layer's maps are its own.
inline constexpr EvolveCoefficients kVanillaStep{0, 0, 0, 1, 0};

// M: carried map of the previous layer (undefined if a = p = 0). S: scores of
// this layer. Conv: the convolution of kernels/map_conv.h with its bias and
// shift. All maps are flat in `layout`, which defines the existing cells.
// Evolving Attention (Wang et al., ICML 2021, Eq. 4) is a = alpha, b = 1 -
// alpha, p = alpha (1 - beta), s = (1 - alpha)(1 - beta), w = beta.
struct EvolveForward {
  static constexpr const char* name = "evolve_forward";
  struct Args {
    TensorView previous;  // optional
    TensorView scores, weight, bias;
    Output out;
    EvolveCoefficients c;
    MapLayout layout;
    MapShift shift = {};
  };
};

// With Z = Conv(I) recomputed, G = w dL [Z > 0] and dI = Conv^T(G):
// dM = p dL + a dI, dS = s dL + b dI; dweight and dbias follow from G and I.
// dprevious is undefined if previous is; all other outputs are fully written.
struct EvolveBackward {
  static constexpr const char* name = "evolve_backward";
  struct Args {
    TensorView dout;
    TensorView previous;  // optional
    TensorView scores, weight, bias;
    Output dprevious;  // optional
    Output dscores, dweight, dbias;
    EvolveCoefficients c;
    MapLayout layout;
    MapShift shift = {};
  };
};

}  // namespace ea
