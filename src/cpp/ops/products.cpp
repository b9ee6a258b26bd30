// Products with weights, their checks, and the gradient of a bias.
#include "ops/products.h"

#include "autograd/grad_mode.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

// Whether a weight is used for inference; in training it changes every step.
bool is_fixed(const Var& weight) { return !grad_enabled() && weight.is_leaf(); }

}  // namespace

const Storage* keeper_of(const Var& weight) {
  const Storage* storage = weight.data().storage().get();
  if (is_fixed(weight) && enabled(FastPath::packed_weights)) return storage;
  storage->drop_derived();
  return nullptr;
}

Tensor product(const Tensor& a, const Tensor& b, bool ta, bool tb,
               const Tensor& bias, const Storage* kept_b, bool row_invariant) {
  Shape shape = a.shape();
  const int rank = shape.rank();
  shape[rank - 2] = a.shape()[ta ? rank - 1 : rank - 2];
  shape[rank - 1] = b.shape()[tb ? rank - 2 : rank - 1];
  const Tensor y = empty(shape, a.dtype(), a.device());
  kernels::run<MatMul>({a, b, bias, y, ta, tb, 1.0, kept_b, row_invariant});
  return y;
}

Tensor as_matrix(const Tensor& t) {
  const std::int64_t width = t.dim(-1);
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < t.rank(); ++axis) rows *= t.shape()[axis];
  return reshape_view(contiguous(t), {rows, width});
}

void check_parameters(const char* op, DType dtype, const Var& weight,
                      const Var& bias) {
  EA_CHECK(!bias.defined() || bias.shape() == Shape({weight.dim(0)}), op,
           "bias has shape {}, expected ({},)", bias.shape(), weight.dim(0));
  EA_CHECK_AS(
      DTypeError,
      dtype == weight.dtype() && (!bias.defined() || bias.dtype() == dtype), op,
      "input is {}, weight {}: expected one type (and the bias's); use "
      ".to(dtype)",
      dtype, weight.dtype());
}

void check_affine(const char* op, const Shape& x, DType dtype,
                  const Var& weight, const Var& bias) {
  EA_CHECK(x.rank() >= 1 && weight.rank() == 2 && x.at(-1) == weight.dim(1), op,
           "weight has shape {}, input {}: expected (out, in) and "
           "(..., in)",
           weight.shape(), x);
  check_parameters(op, dtype, weight, bias);
}

Tensor affine(const Tensor& x, const Var& weight, const Var& bias) {
  const Tensor y =
      empty({x.dim(0), weight.dim(0)}, weight.dtype(), weight.device());
  affine_into(x, weight, bias, y);
  return y;
}

void affine_into(const Tensor& x, const Var& weight, const Var& bias,
                 const Tensor& y) {
  Tensor w = weight.data();
  if (w.rank() > 2) w = reshape_view(contiguous(w), {w.dim(0), w.dim(1)});
  kernels::run<MatMul>({x, w, bias.defined() ? bias.data() : Tensor(), y, false,
                        true, 1.0, keeper_of(weight), is_fixed(weight)});
}

Tensor sum_of_rows(const Tensor& dy) {
  const std::int64_t width = dy.dim(1);
  const Tensor db = empty({1, width}, dy.dtype(), dy.device());
  kernels::run<Sum>({reshape_view(dy, {1, dy.dim(0), width}), db});
  return reshape_view(db, {width});
}

}  // namespace ea
