// Backward of the unfused step, for the maps only:
//   dP = dropout(dY V^T),  dL = dcarry + t P (dP - sum(P dP)),
//   dS through L = p M + s S + w ReLU(Conv(a M + b S)).
#include "ops/fused_maps.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "kernels/dropout.h"
#include "kernels/registry.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/evolve.h"
#include "ops/softmax.h"

namespace ea {

namespace {

Var optional(const Tensor& t) { return t.defined() ? Var(t) : Var(); }

Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return add(Var(reshape_view(contiguous(a), {a.numel()})),
             Var(reshape_view(contiguous(b), {b.numel()})))
      .data();
}

// Returns the gradient of x, taken as a leaf, given the gradient dy of f(x).
template <typename F>
Tensor through(const Tensor& x, const Tensor& dy, const F& f) {
  const GradMode grad(true);
  const Var leaf(x, true);
  const Var y = f(leaf);
  backward(y, reshape_view(contiguous(dy), y.shape()));
  return leaf.grad();
}

Tensor of_probabilities(const FusedMaps::Saved& saved, const Tensor& dcontext) {
  const FusedAttention& in = saved.numbers;
  const Tensor kept =
      attention_scores(Var(dcontext), Var(saved.v), saved.packing, 1.0).data();
  if (in.p > 0.0) {
    kernels::run<Dropout>({kept, kept, in.p, in.seed, in.stream});
  }
  return kept;
}

Tensor of_scores(const FusedMaps::Saved& saved, const Tensor& dlogits) {
  const FusedAttention& in = saved.numbers;
  if (in.c.w == 0.0) return scale(Var(dlogits), in.c.s).data();
  Var scores =
      attention_scores(Var(saved.q), Var(saved.k), saved.packing, in.scale);
  if (saved.score_bias.defined()) scores = add(scores, Var(saved.score_bias));
  return through(scores.data(), dlogits, [&](const Var& s) {
    return evolve(optional(saved.previous), s, Var(saved.weight),
                  Var(saved.bias), in.c, saved.packing, in.shift);
  });
}

}  // namespace

bool FusedMaps::Map::wanted() const {
  return std::any_of(to->begin(), to->end(),
                     [](const Retained& each) { return each.wanted(); });
}

void FusedMaps::Map::deliver(const Tensor& gradient) const {
  const Tensor whole = sum_of(gradient, *direct);
  for (const Retained& each : *to) ea::deliver(each, whole);
}

void FusedMaps::join(const Map& map, const Var& x) { x.impl()->late = map.to; }

void FusedMaps::observe(const Map& map, const Var& x) {
  if (!x.defined() || x.is_leaf()) return;
  join(map, x);
  x.node()->observe(
      [direct = map.direct](const Node&, const Node::Arrived& arrived) {
        *direct = arrived[0];
      });
}

void FusedMaps::fill(const Saved& saved, const Tensor& dcontext,
                     const Tensor& dcarry) const {
  const bool scores = scores_.wanted();
  const bool above = scores || logits_.wanted();
  if (!above && !probabilities_.wanted()) return;
  Tensor dprobabilities;
  if (dcontext.defined()) dprobabilities = of_probabilities(saved, dcontext);
  probabilities_.deliver(dprobabilities);
  if (!above) return;
  Tensor dlogits = dcarry;
  if (dprobabilities.defined()) {
    const auto softmax = [&](const Var& l) {
      return map_softmax(l, saved.packing, saved.numbers.softmax_scale);
    };
    dlogits = sum_of(through(saved.logits, dprobabilities, softmax), dcarry);
  }
  if (!dlogits.defined()) return;
  logits_.deliver(dlogits);
  if (scores) scores_.deliver(of_scores(saved, dlogits));
}

}  // namespace ea
