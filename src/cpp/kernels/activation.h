// Contract: elementwise activation functions and their derivatives.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

enum class Activation : std::uint8_t {
  gelu,        // x Phi(x), Phi by erf
  gelu_tanh,   // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  relu,        // max(x, 0); derivative 0 at 0
  leaky_relu,  // x > 0 ? x : slope x
  tanh,
  sigmoid,
  exp,
  log,
  sqrt,
  elu,  // x > 0 ? x : exp(x) - 1
};

// y = f(x): contiguous, of equal shape and dtype. y may alias x.
struct ActivationForward {
  static constexpr const char* name = "activation_forward";
  struct Args {
    Activation kind;
    double slope;  // leaky_relu only
    TensorView x;
    Output y;
  };
};

// dx = dy f'(x), from the saved input x. If dbias [width] is given, all other
// tensors are [rows, width], and dbias receives the sum of the rows of dx,
// added as stored (rounded to the dtype of dx).
struct ActivationBackward {
  static constexpr const char* name = "activation_backward";
  struct Args {
    Activation kind;
    double slope;
    TensorView dy, x;
    Output dx;
    Output dbias = {};  // optional
  };
};

}  // namespace ea
