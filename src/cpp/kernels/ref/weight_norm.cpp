// Reference weight normalisation, row by row.
#include <cmath>

#include "kernels/ref/run.h"
#include "kernels/weight_norm.h"

namespace ea::ref {

namespace {

template <typename T>
void forward_of(const WeightNormForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t width = args.v.dim(1);
  for (std::int64_t r = 0; r < args.v.dim(0); ++r) {
    const T* v = args.v.as<T>() + r * width;
    A squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += A(v[i]) * A(v[i]);
    const A norm = std::sqrt(squares);
    args.norm.as<A>()[r] = norm;
    const A scale = A(args.g.as<T>()[r]) / norm;
    T* w = args.w.as<T>() + r * width;
    for (std::int64_t i = 0; i < width; ++i) w[i] = T(A(v[i]) * scale);
  }
}

// d|v|/dv = v / |v| = u, so with s = g / |v|, w = s v and ds/dv = -s u / |v|:
//   dv = s dw + (dw v) (-s u / |v|) = s (dw - u (dw u)).
template <typename T>
void backward_of(const WeightNormBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t width = args.v.dim(1);
  for (std::int64_t r = 0; r < args.v.dim(0); ++r) {
    const T* v = args.v.as<T>() + r * width;
    const T* dw = args.dw.as<T>() + r * width;
    const A norm = args.norm.as<A>()[r];
    A along = 0;
    for (std::int64_t i = 0; i < width; ++i) along += A(dw[i]) * A(v[i]);
    along /= norm;
    args.dg.as<T>()[r] = T(along);
    const A scale = A(args.g.as<T>()[r]) / norm;
    T* dv = args.dv.as<T>() + r * width;
    for (std::int64_t i = 0; i < width; ++i) {
      dv[i] = T(scale * (A(dw[i]) - A(v[i]) / norm * along));
    }
  }
}

}  // namespace

EA_RUN_REF(WeightNormForward, forward_of, v)
EA_RUN_REF(WeightNormBackward, backward_of, v)

}  // namespace ea::ref
