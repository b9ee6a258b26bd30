// Initial values of parameters.
#pragma once

#include "autograd/var.h"
#include "runtime/random.h"

namespace ea {

struct Init {
  enum class Kind {
    zeros,
    ones,
    constant,          // scale
    normal,            // N(0, scale^2)
    truncated_fan_in,  // N(0, 1/fan_in), truncated at two standard deviations
    uniform,           // U(-scale, scale)
    glorot,            // U(-b, b) of a matrix, b^2 = 6 / (rows + columns)
    identity_conv,     // 1 at the centre tap of the diagonal, else 0
    row_norms,         // row norms of `source`, an earlier parameter
    given,             // `values`
  };
  Kind kind = Kind::zeros;
  double scale = 0.0;
  Tensor values = {};
  Var source = {};

  static Init normal(double standard_deviation) {
    return {Kind::normal, standard_deviation};
  }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  static Init glorot() { return {Kind::glorot}; }
  static Init row_norms(const Var& of) {
    return {Kind::row_norms, 0.0, {}, of};
  }
  static Init ones() { return {Kind::ones}; }
  static Init all(double value) { return {Kind::constant, value}; }
};

// Fills a tensor; random kinds use the stream of `site`.
void initialize(const Tensor& t, const Init& init, StreamSite site);

}  // namespace ea
