// Reduces all gradients once, then scales them if needed.
#include "optim/clip.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Returns the part of a gradient that may differ from zero; undefined if there
// is no gradient.
const Tensor& used_part(const Var& param) {
  const RowGradient& rows = param.row_grad();
  return rows.defined() ? rows.rows : param.grad();
}

}  // namespace

void sum_of_squares(const std::vector<Var>& params, const Tensor& result) {
  std::vector<Tensor> kept;
  std::vector<TensorView> views;
  for (const Var& param : params) {
    const Tensor& g = used_part(param);
    if (!g.defined()) continue;
    kept.push_back(contiguous(g));
    views.push_back(kept.back());
  }
  kernels::run<SumOfSquares>({&views, result});
}

double global_norm(const std::vector<Var>& params) {
  for (const Var& param : params) {
    const Tensor& g = used_part(param);
    if (!g.defined()) continue;
    const Tensor sum = empty({}, DType::f64, g.device());
    sum_of_squares(params, sum);
    return std::sqrt(sum.item());
  }
  return 0.0;
}

double clip_grad_norm(const std::vector<Var>& params, double max_norm) {
  EA_CHECK_AS(ConfigError, max_norm > 0, "clip_grad_norm",
              "max_norm {} is not positive", max_norm);
  const double norm = global_norm(params);
  const double factor = max_norm / (norm + 1e-6);
  if (!std::isfinite(norm) || factor >= 1.0) return norm;
  for (const Var& param : params) {
    const Tensor& g = used_part(param);
    if (!g.defined()) continue;
    kernels::run<Axpby>({factor, g, 0.0, {}, g});
    g.storage()->note_write();
  }
  return norm;
}

}  // namespace ea
