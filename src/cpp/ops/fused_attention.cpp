// Checks the arguments and records one node with two outputs.
#include "ops/fused_attention.h"

#include "autograd/node.h"
#include "kernels/fused_attention.h"
#include "kernels/registry.h"
#include "ops/map_conv.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr const char* kName = "fused_attention";

// Returns x as token rows. Its width must be a multiple of the heads, and for
// keys that of q.
Tensor rows_of(const char* which, const Var& x, std::int64_t rows,
               const Var& like, std::int64_t heads, bool is_value = false) {
  EA_CHECK(x.rank() == 2 && x.dim(0) == rows && x.dim(1) % heads == 0 &&
               (is_value || x.dim(1) == like.dim(1)),
           kName,
           "{} has shape {}, expected {} token rows of a width that is a "
           "multiple of {} heads, one width for q and k",
           which, x.shape(), rows, heads);
  EA_CHECK_AS(DTypeError, x.dtype() == like.dtype(), kName,
              "{} is {}, q is {}; use .to(dtype)", which, x.dtype(),
              like.dtype());
  return x.data().strides()[1] == 1 ? x.data() : contiguous(x.data());
}

void check_map(const char* which, const Var& maps, const Var& q,
               const PackingPtr& packing) {
  if (!maps.defined()) return;
  packing->check_maps(kName, maps.numel(), which);
  EA_CHECK_AS(DTypeError, maps.dtype() == q.dtype(), kName,
              "the {} map is {}, q is {}; use .to(dtype)", which, maps.dtype(),
              q.dtype());
}

void check_maps(const Var& previous, const Var& weight, const Var& bias,
                const Var& q, const EvolveCoefficients& c,
                const PackingPtr& packing) {
  EA_CHECK_AS(InputError, previous.defined() || (c.a == 0.0 && c.p == 0.0),
              kName, "a previous map is needed where a = {} or p = {} is not 0",
              c.a, c.p);
  check_map("previous", previous, q, packing);
  if (c.w == 0.0) return;
  EA_CHECK_AS(InputError, weight.defined() && bias.defined(), kName,
              "weight and bias are needed where w = {} is not 0", c.w);
  check_map_weight(kName, weight, bias, packing->heads(), q.dtype());
}

// Indices of the tensors saved for backward.
enum {
  kQ,
  kK,
  kV,
  kPrevious,
  kWeight,
  kBias,
  kCarry,
  kStatistics,
  kGates,
  kScoreBias
};
// Index of the score bias among the node's inputs, after kBias.
constexpr int kScoreBiasInput = kBias + 1;

Tensor flat_of(const Var& x) {
  return x.defined() ? reshape_view(contiguous(x.data()), {x.numel()})
                     : Tensor();
}

Tensor shaped(const Tensor& x, const Shape& shape) {
  return x.defined() ? reshape_view(x, shape) : x;
}

Tensor like(const Tensor& t) { return t.defined() ? empty_like(t) : Tensor(); }

FusedMaps::Saved saved_of(const Node& node, const FusedAttention& plain,
                          const PackingPtr& packing) {
  return {node.saved(kQ),
          node.saved(kK),
          node.saved(kV),
          node.saved(kPrevious),
          node.saved(kWeight),
          node.saved(kBias),
          node.saved(kScoreBias),
          node.saved(kCarry),
          plain,
          packing};
}

Node::Gradients gradients(const Node& node, const Tensor& dy,
                          const FusedAttention& plain,
                          const PackingPtr& packing,
                          const Shape& previous_shape,
                          const Shape& score_bias_shape) {
  FusedAttention in = plain;
  in.q = node.saved(kQ);
  in.k = node.saved(kK);
  in.v = node.saved(kV);
  in.previous = node.saved(kPrevious);
  in.weight = node.saved(kWeight);
  in.bias = node.saved(kBias);
  in.score_bias = node.saved(kScoreBias);
  in.layout = packing->layout();
  const Tensor& dcarry = node.second_gradient();
  const Tensor dq = like(node.saved(kQ)), dk = like(node.saved(kK));
  const Tensor dv = like(node.saved(kV));
  const Tensor dm =
      node.wants(kPrevious) ? like(node.saved(kPrevious)) : Tensor();
  const Tensor ds = node.wants(kScoreBiasInput)
                        ? empty({packing->map_elements()}, in.q.dtype,
                                node.saved(kQ).device())
                        : Tensor();
  const Tensor dw = like(node.saved(kWeight)), db = like(node.saved(kBias));
  kernels::run<FusedAttentionBackward>(
      {in,
       dy.defined()
           ? dy
           : zeros({dq.shape()[0], dv.shape()[1]}, dq.dtype(), dq.device()),
       dcarry.defined() ? reshape_view(dcarry, {dcarry.numel()}) : dcarry,
       node.saved(kCarry), node.saved(kStatistics), node.saved(kGates), dq, dk,
       dv, dm, dw, db, ds});
  return {dq,
          dk,
          dv,
          shaped(dm, previous_shape),
          dw,
          db,
          shaped(ds, score_bias_shape)};
}

}  // namespace

FusedAttentionOutput fused_attention(const Var& q, const Var& k, const Var& v,
                                     const Var& previous, const Var& weight,
                                     const Var& bias, const PackingPtr& packing,
                                     const FusedAttentionSettings& settings) {
  const EvolveCoefficients& c = settings.c;
  EA_CHECK(q.rank() == 2, kName, "q has shape {}, expected token rows",
           q.shape());
  const std::int64_t heads = packing->heads();
  const Tensor tq = rows_of("q", q, packing->total_queries(), q, heads);
  const Tensor tk = rows_of("k", k, packing->total_keys(), q, heads);
  const Tensor tv =
      rows_of("v", v, packing->total_keys(), q, heads, /*is_value=*/true);
  check_maps(previous, weight, bias, q, c, packing);
  const Var& added = settings.score_bias;
  check_map("score bias", added, q, packing);
  const MapShift shift = checked_shift(kName, settings.shift, packing);
  const double p = settings.dropout.p;
  EA_CHECK_AS(ConfigError, p >= 0.0 && p < 1.0, kName,
              "dropout {} is outside [0, 1)", p);
  const Var m = c.a != 0.0 || c.p != 0.0 ? previous : Var();
  const Var w = c.w != 0.0 ? weight : Var(), b = c.w != 0.0 ? bias : Var();
  const Tensor tm = flat_of(m), ts = flat_of(added);
  const Tensor tw = w.defined() ? contiguous(w.data()) : Tensor();
  const Tensor tb = b.defined() ? contiguous(b.data()) : Tensor();
  const RandomState stream =
      p > 0.0 ? next_random_stream(settings.dropout.site) : RandomState();
  const FusedAttention in{tq,
                          tk,
                          tv,
                          tm,
                          tw,
                          tb,
                          c,
                          settings.scale,
                          settings.softmax_scale,
                          p,
                          stream.seed,
                          stream.offset,
                          packing->layout(),
                          shift,
                          ts};
  const bool recorded = recording({q, k, v, m, w, b, added});
  const std::int64_t cells = packing->map_elements();
  const std::int64_t rows = heads * packing->total_queries();
  const Tensor y =
      empty({packing->total_queries(), v.dim(1)}, q.dtype(), q.device());
  Tensor carry, statistics, gates;
  if (settings.carry || (recorded && c.w != 0.0)) {
    carry = empty({cells}, q.dtype(), q.device());
  }
  if (recorded) {
    statistics = empty({rows, 2}, wide_type(q.dtype()), q.device());
    if (c.w != 0.0) {
      gates = empty({gate_bytes(cells, rows)}, DType::u8, q.device());
    }
  }
  kernels::run<FusedAttentionForward>({in, y, carry, statistics, gates});
  FusedAttention plain = in;  // only numbers: the node saves the tensors
  plain.q = plain.k = plain.v = plain.previous = {};
  plain.weight = plain.bias = plain.score_bias = {};
  const Shape shape = m.defined() ? m.shape() : Shape();
  const Shape added_shape = added.defined() ? added.shape() : Shape();
  // Whether the backward recomputes S and so needs its bias.
  const bool again = c.w != 0.0 || !carry.defined();
  const Var context = record(
      kName, y, {q, k, v, m, w, b, added},
      {tq, tk, tv, tm, tw, tb, carry, statistics, gates, again ? ts : Tensor()},
      [plain, packing, shape, added_shape](const Node& node, const Tensor& dy) {
        return gradients(node, dy, plain, packing, shape, added_shape);
      });
  if (!settings.carry) return {context, {}};
  if (recorded && settings.maps) {
    context.node()->observe([plain, packing, maps = settings.maps](
                                const Node& node, const Node::Arrived& dy) {
      maps->fill(saved_of(node, plain, packing), dy[0], dy[1]);
    });
  }
  return {context, second_output(context, carry)};
}

}  // namespace ea
