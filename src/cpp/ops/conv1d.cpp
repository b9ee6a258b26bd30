// Convolution along packed sequences.
#include "ops/conv1d.h"

#include "autograd/node.h"
#include "kernels/conv1d.h"
#include "kernels/registry.h"
#include "ops/products.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Upper bound of (kernel - 1) dilation: row indices stay far below the range of
// 64 bits.
constexpr std::int64_t kMaxSpan = std::int64_t{1} << 31;

void check_arguments(const Var& x, const Var& weight, const Var& bias,
                     const Packing& packing, std::int64_t dilation,
                     bool causal) {
  EA_CHECK(x.rank() == 2, "conv1d",
           "input has shape {}, expected packed tokens (tokens, channels)",
           x.shape());
  EA_CHECK(x.dim(0) == packing.total_queries(), "conv1d",
           "input has {} tokens; expected the packing's {}", x.dim(0),
           packing.total_queries());
  EA_CHECK(weight.rank() == 3 && weight.dim(1) == x.dim(1), "conv1d",
           "weight has shape {}, input {}: expected (out, {}, kernel)",
           weight.shape(), x.shape(), x.dim(1));
  const std::int64_t taps = weight.dim(2);
  EA_CHECK(taps >= 1, "conv1d",
           "weight has shape {}: a kernel of no taps, expected at least one",
           weight.shape());
  EA_CHECK(causal || taps % 2 == 1, "conv1d",
           "a centred kernel of {} taps has no middle, expected an odd number; "
           "use causal=True or another kernel",
           taps);
  EA_CHECK_AS(ConfigError, dilation >= 1, "conv1d",
              "dilation {}, expected 1 (neighbouring rows) or more", dilation);
  EA_CHECK_AS(ConfigError, taps == 1 || dilation < kMaxSpan / (taps - 1),
              "conv1d",
              "a kernel of {} taps {} rows apart is too large, expected "
              "(kernel - 1) dilation below {}",
              taps, dilation, kMaxSpan);
  check_parameters("conv1d", x.dtype(), weight, bias);
}

}  // namespace

Var conv1d(const Var& x, const Var& weight, const Var& bias,
           const PackingPtr& packing, std::int64_t dilation, bool causal) {
  check_arguments(x, weight, bias, *packing, dilation, causal);
  const std::int64_t span = (weight.dim(2) - 1) * dilation;
  const std::int64_t reach = causal ? span : span / 2;
  const auto taps = [dilation, reach](const Packing& p) {
    return Conv1dTaps{p.q_offsets().data(), p.sequences(), dilation, reach};
  };
  const Tensor rows = contiguous(x.data());
  const Tensor w = contiguous(weight.data());
  const Tensor y = empty({x.dim(0), weight.dim(0)}, x.dtype(), x.device());
  kernels::run<Conv1dForward>(
      {rows, w, bias.defined() ? contiguous(bias.data()) : Tensor(), y,
       taps(*packing)});
  return record("conv1d", y, {x, weight, bias}, {rows, w},
                [packing, taps](const Node& node, const Tensor& grad) {
                  const Tensor& x = node.saved(0);
                  const Tensor& w = node.saved(1);
                  const Tensor dy = contiguous(grad);
                  Node::Gradients grads(3);
                  if (node.wants(0)) grads[0] = empty_like(x);
                  if (node.wants(1)) grads[1] = empty_like(w);
                  if (node.wants(0) || node.wants(1)) {
                    kernels::run<Conv1dBackward>(
                        {dy, x, w, grads[0], grads[1], taps(*packing)});
                  }
                  if (node.wants(2)) grads[2] = sum_of_rows(dy);
                  return grads;
                });
}

}  // namespace ea
