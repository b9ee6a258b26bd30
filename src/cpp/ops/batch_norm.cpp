// Batch normalisation: statistics, running averages, and the affine map.
#include "ops/batch_norm.h"

#include <cmath>
#include <type_traits>

#include "autograd/node.h"
#include "autograd/recompute.h"
#include "kernels/activation.h"
#include "kernels/batch_norm.h"
#include "kernels/registry.h"
#include "ops/products.h"
#include "runtime/check.h"
#include "tensor/finite.h"

namespace ea {

namespace {

// Indices of the tensors that the node saves.
struct Norm {
  enum { x, weight, mean, rstd, bias, variance, y };
};

void check_settings(double momentum, double eps) {
  EA_CHECK_AS(ConfigError, momentum >= 0 && momentum <= 1, "batch_norm",
              "momentum {} is outside [0, 1]", momentum);
  EA_CHECK_AS(ConfigError, eps >= 0, "batch_norm",
              "eps {} is negative, expected 0 or more", eps);
}

void check_running(const RunningStatistics& running, const Shape& expected,
                   DType dtype, bool training) {
  const bool given = running.mean.defined();
  EA_CHECK_AS(InputError, given == running.variance.defined(), "batch_norm",
              "running_{} is None, expected both running statistics or none",
              given ? "variance" : "mean");
  EA_CHECK_AS(InputError, given || training, "batch_norm",
              "running_mean and running_variance are None, but evaluation "
              "reads them; pass them, or training=True");
  if (!given) return;
  EA_CHECK(
      running.mean.shape() == expected && running.variance.shape() == expected,
      "batch_norm",
      "running_mean has shape {}, running_variance {}, "
      "expected {}",
      running.mean.shape(), running.variance.shape(), expected);
  EA_CHECK_AS(
      DTypeError,
      running.mean.dtype() == dtype && running.variance.dtype() == dtype,
      "batch_norm", "running_mean is {}, running_variance {}, expected {}",
      running.mean.dtype(), running.variance.dtype(), dtype);
  EA_CHECK(running.mean.data().is_contiguous() &&
               running.variance.data().is_contiguous(),
           "batch_norm", "the running statistics are not contiguous");
}

void check_arguments(const Var& x, const Var& weight, const Var& bias,
                     bool training) {
  EA_CHECK(x.rank() == 2 || x.rank() == 4, "batch_norm",
           "input has shape {}, expected packed tokens (tokens, channels) or "
           "images (n, channels, height, width)",
           x.shape());
  const std::int64_t width = x.dim(-1);
  EA_CHECK(weight.shape() == Shape({width}) && bias.shape() == Shape({width}),
           "batch_norm", "weight has shape {}, bias {}, expected ({},)",
           weight.shape(), bias.shape(), width);
  EA_CHECK_AS(DTypeError,
              weight.dtype() == x.dtype() && bias.dtype() == x.dtype(),
              "batch_norm",
              "input is {}, weight {}, bias {}: expected one type; use "
              ".to(dtype)",
              x.dtype(), weight.dtype(), bias.dtype());
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) rows *= x.dim(axis);
  EA_CHECK_AS(InputError, !training || rows >= 2, "batch_norm",
              "the batch has {} {}{}, training expected at least 2, because "
              "one has no variance; use a larger batch, or evaluation mode",
              rows, x.rank() == 2 ? "token" : "pixel", rows == 1 ? "" : "s");
}

void move_towards(const Tensor& now, double momentum, double factor,
                  const Tensor& running) {
  kernels::run<MoveAverage>({now, running, momentum, factor});
  running.storage()->note_write();
}

}  // namespace

Var batch_norm(const Var& x, const Var& weight, const Var& bias,
               const RunningStatistics& running, bool training, double momentum,
               double eps, const Var& residual, bool rectify) {
  const DType wide = wide_type(x.dtype());
  check_settings(momentum, eps);
  check_arguments(x, weight, bias, training);
  EA_CHECK(!residual.defined() || residual.shape() == x.shape(), "batch_norm",
           "residual has shape {}, expected {} as the input", residual.shape(),
           x.shape());
  EA_CHECK_AS(DTypeError, !residual.defined() || residual.dtype() == x.dtype(),
              "batch_norm", "residual is {}, input {}: expected one type",
              residual.dtype(), x.dtype());
  const Shape channels{x.dim(-1)};
  check_running(running, channels, wide, training);
  const Tensor rows = as_matrix(x.data());
  const Tensor w = contiguous(weight.data());
  const Tensor b = contiguous(bias.data());
  Tensor mean, variance;
  if (training) {
    mean = empty(channels, wide, x.device());
    variance = empty(channels, wide, x.device());
    kernels::run<BatchStatistics>({rows, mean, variance});
    if (running.mean.defined() && !recomputing()) {
      const auto n = static_cast<double>(rows.dim(0));
      move_towards(mean, momentum, 1.0, running.mean.data());
      move_towards(variance, momentum, n / (n - 1.0), running.variance.data());
    }
  } else {
    // The backward needs copies: training may update the running statistics
    // before it runs.
    mean = clone(running.mean.data());
    variance = clone(running.variance.data());
  }
  const Tensor rstd = empty(channels, wide, x.device());
  const Tensor y = empty_like(rows);
  const Tensor added =
      residual.defined() ? as_matrix(residual.data()) : Tensor();
  kernels::run<BatchNormForward>(
      {rows, w, b, mean, variance, y, rstd, eps, added, rectify});
  const Shape shape = x.shape();
  const bool joined = residual.defined();
  // With a residual, the backward finds the positive elements of a rectified
  // sum from y; without one, from x.
  const Var out = record(
      "batch_norm", reshape_view(y, shape), {x, weight, bias, residual},
      {rows, w, mean, rstd, b, variance, rectify && joined ? y : Tensor()},
      [training, shape, rectify](const Node& node, const Tensor& grad) {
        const Tensor& x = node.saved(Norm::x);
        const Tensor& w = node.saved(Norm::weight);
        const Tensor& y = node.saved(Norm::y);
        const bool positive = rectify && !y.defined();
        Tensor dy = as_matrix(grad);
        if (y.defined()) {
          const Tensor passed = empty_like(dy);
          kernels::run<ActivationBackward>(
              {Activation::relu, 0.0, dy, y, passed});
          dy = passed;
        }
        const Tensor dx = empty_like(x);
        const Tensor dw = empty_like(w);
        const Tensor db = empty_like(w);
        kernels::run<BatchNormBackward>(
            {dy, x, w, node.saved(Norm::mean), node.saved(Norm::rstd), dx, dw,
             db, training, positive ? node.saved(Norm::bias) : Tensor()});
        return Node::Gradients{
            reshape_view(dx, shape), dw, db,
            node.wants(3) ? reshape_view(dy, shape) : Tensor()};
      });
  if (joined) return out;
  return remakable(out, [shape, eps, rectify](const Node& node) {
    const Tensor y = empty_like(node.saved(Norm::x));
    const Tensor rstd = empty_like(node.saved(Norm::rstd));
    kernels::run<BatchNormForward>(
        {node.saved(Norm::x), node.saved(Norm::weight), node.saved(Norm::bias),
         node.saved(Norm::mean), node.saved(Norm::variance), y, rstd, eps,
         Tensor(), rectify});
    return reshape_view(y, shape);
  });
}

ChannelMap channel_map(const Var& weight, const Var& bias,
                       const RunningStatistics& running, double eps) {
  const Tensor mean = running.mean.data(), variance = running.variance.data();
  const ChannelMap map{empty_like(mean), empty_like(mean)};
  visit_floating(weight.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Tensor w = contiguous(weight.data()), b = contiguous(bias.data());
    const T *by = w.data<T>(), *plus = b.data<T>();
    const A *center = mean.data<A>(), *spread = variance.data<A>();
    A *scale = map.scale.data<A>(), *shift = map.shift.data<A>();
    const std::int64_t channels = mean.numel();
    for (std::int64_t c = 0; c < channels; ++c) {
      const A rstd = 1 / std::sqrt(spread[c] + static_cast<A>(eps));
      scale[c] = rstd * static_cast<A>(by[c]);
      shift[c] = static_cast<A>(plus[c]) - center[c] * scale[c];
    }
  });
  const std::int64_t c = first_not_finite(map.shift);
  EA_CHECK_AS(InputError, c < 0, "batch_norm",
              "y = scale x + shift of channel {} is not finite: expected "
              "finite numbers, since a ReLU after it may turn NaN into 0; "
              "look at weight[{}], bias[{}], running_mean[{}] and "
              "running_var[{}], or load finite ones",
              c, c, c, c, c);
  return map;
}

}  // namespace ea
