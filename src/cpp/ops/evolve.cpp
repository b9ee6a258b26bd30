// The evolving step as one fused kernel.
#include "ops/evolve.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "ops/arithmetic.h"
#include "ops/map_conv.h"
#include "runtime/check.h"

namespace ea {

namespace {

Tensor flattened(const Var& x) {
  return reshape_view(contiguous(x.data()), {x.numel()});
}

// Runs the kernel on cells that are not along edges.
Var step(const Var& previous, const Var& scores, const Var& weight,
         const Var& bias, const EvolveCoefficients& c,
         const PackingPtr& packing, const MapShift& shift) {
  const MapShift moved = checked_shift("evolve", shift, packing);
  const bool carried = previous.defined() && (c.a != 0.0 || c.p != 0.0);
  const Var m = carried ? previous : Var();
  const Tensor tm = carried ? flattened(previous) : Tensor();
  const Tensor ts = flattened(scores);
  const std::int64_t h = packing->heads();
  const Var w = c.w != 0.0 ? weight : Var(), b = c.w != 0.0 ? bias : Var();
  const Tensor tw =
      w.defined() ? w.data() : zeros({h, h, 1, 1}, ts.dtype(), ts.device());
  const Tensor tb =
      b.defined() ? b.data() : zeros({h}, ts.dtype(), ts.device());
  const Tensor out = empty_like(ts);
  const std::int64_t side = tw.dim(2);
  const bool shifted = !moved.none();
  kernels::run<EvolveForward>(
      {tm, ts, tw, tb, out, c, packing->layout_for(side, shifted), moved});
  const Shape shape = scores.shape();
  return record(
      "evolve", reshape_view(out, shape), {m, scores, w, b}, {tm, ts, tw, tb},
      [packing, c, shape, moved, side, shifted](const Node& node,
                                                const Tensor& dy) {
        const Tensor& m = node.saved(0);
        const Tensor& s = node.saved(1);
        const Tensor& w = node.saved(2);
        Tensor dm;
        if (m.defined()) dm = empty_like(m);
        const Tensor ds = empty_like(s);
        const Tensor dw = empty_like(w);
        const Tensor db = empty({w.dim(0)}, w.dtype(), w.device());
        kernels::run<EvolveBackward>(
            {reshape_view(dy, s.shape()), m, s, w, node.saved(3), dm, ds, dw,
             db, c, packing->layout_for(side, shifted), moved});
        return Node::Gradients{dm.defined() ? reshape_view(dm, shape) : dm,
                               reshape_view(ds, shape), dw, db};
      });
}

}  // namespace

Var evolve(const Var& previous, const Var& scores, const Var& weight,
           const Var& bias, const EvolveCoefficients& c,
           const PackingPtr& packing, const MapShift& shift) {
  packing->check_maps("evolve", scores.numel(), "score");
  if (previous.defined()) {
    packing->check_maps("evolve", previous.numel(), "previous");
  }
  EA_CHECK_AS(
      InputError, previous.defined() || (c.a == 0.0 && c.p == 0.0), "evolve",
      "a previous map is needed where a = {} or p = {} is not 0", c.a, c.p);
  const bool kept = previous.defined() && c.p != 0.0;
  if (c.w == 0.0) {  // no convolution: a sum of two maps
    if (!kept && c.s == 1.0) return scores;
    if (packing->dense()) {
      return kept ? axpby(c.p, previous, c.s, scores) : scale(scores, c.s);
    }
  } else {
    EA_CHECK_AS(InputError, weight.defined() && bias.defined(), "evolve",
                "weight and bias are needed where w = {} is not 0", c.w);
    check_map_weight("evolve", weight, bias, packing->heads(), scores.dtype());
  }
  EA_CHECK_AS(DTypeError,
              !previous.defined() || previous.dtype() == scores.dtype(),
              "evolve", "the previous map is {}, scores are {}; use .to(dtype)",
              previous.dtype(), scores.dtype());
  if (packing->is_along_edges()) {
    return evolve_composite(previous, scores, weight, bias, c, packing, shift);
  }
  const Var mask = head_mask(scores, packing);
  const Var before = masked_heads(previous, mask);
  const Var now = masked_heads(scores, mask);
  return masked_heads(step(before, now, weight, bias, c, packing, shift), mask);
}

Var existing_cells(const Var& maps, const PackingPtr& packing) {
  if (packing->dense()) return masked_heads(maps, head_mask(maps, packing));
  return step(Var(), maps, Var(), Var(), kVanillaStep, packing, {});
}

}  // namespace ea
