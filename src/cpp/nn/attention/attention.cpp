// S = score(Q, K) + bias; L = evolve(S, previous); P = softmax(t L); P V.
#include "nn/attention/attention.h"

#include "ops/arithmetic.h"
#include "ops/fused_attention.h"
#include "ops/softmax.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

SlotSite site_of(const AttentionConfig& c) {
  return {c.layer,          c.num_layers,       c.heads,
          c.head_key_width, c.head_value_width, c.dtype};
}

}  // namespace

Attention::Attention(const AttentionConfig& config, const AttentionSpec& spec)
    : config_(config),
      query_(config.query_size, config.key_size(), config.dtype, config.init),
      key_(config.memory_size, config.key_size(), config.dtype, config.init),
      value_(config.memory_size, config.value_size(), config.dtype,
             config.init),
      slots_(make_slots(spec, site_of(config))),
      dropout_(config.dropout) {
  add_child("query", query_);
  add_child("key", key_);
  add_child("value", value_);
  add_child("dropout", dropout_);
  for (Module* slot : {static_cast<Module*>(slots_.score.get()),
                       static_cast<Module*>(slots_.scope.get()),
                       static_cast<Module*>(slots_.bias.get()),
                       static_cast<Module*>(slots_.evolve.get())}) {
    if (slot == nullptr) continue;
    add_child("", *slot);
    slot->mark_addition();
  }
}

AttentionOutput Attention::forward(const Tokens& queries, const Tokens& memory,
                                   const Carry& previous,
                                   const AttentionWanted& wanted) {
  AttentionContext context{
      config_.layer, config_.num_layers,
      Packing::between(queries.packing, memory.packing, config_.heads), nullptr,
      config_.carry_dropout};
  context.maps = slots_.scope->maps(context.tokens);
  const bool goes_on =
      previous.maps.defined() && previous.packing->same_maps(*context.maps);
  const Var before = goes_on ? previous.maps : Var();
  const Var q = query_(queries.rows);
  const std::optional<double> scale = slots_.score->dot_scale();
  const bool fusable = enabled(FastPath::fused_attention) && scale &&
                       slots_.scope->dense() &&
                       !(slots_.bias && slots_.bias->has_values()) &&
                       config_.head_key_width == config_.head_value_width;
  if (fusable) {
    if (const auto form = slots_.evolve->closed_form()) {
      const Var k = key_(memory.rows);
      const Var v = value_(memory.rows);
      return fused(q, k, v, before, context, *scale, *form, wanted);
    }
  }
  Var scores =
      slots_.score->scores(q, key_(memory.rows), *slots_.scope, context);
  if (slots_.bias) scores = add(scores, slots_.bias->map(q, context));
  const Evolved evolved = slots_.evolve->step(scores, before, context);
  const Var probabilities =
      slots_.scope->normalise(evolved.logits, evolved.scale, context);
  const Var kept = dropout_(probabilities);
  Var mixed = slots_.scope->mix(kept, value_(memory.rows), context);
  if (slots_.bias) mixed = slots_.bias->mix(mixed, kept, context);
  return {mixed, {evolved.carry, context.maps}, probabilities};
}

AttentionOutput Attention::fused(const Var& q, const Var& k, const Var& v,
                                 const Var& previous,
                                 const AttentionContext& context, double scale,
                                 const ClosedFormView& form,
                                 const AttentionWanted& wanted) const {
  // The first map of a chain equals the scores.
  const bool starts =
      !previous.defined() && (form.c.a != 0.0 || form.c.p != 0.0);
  const EvolveCoefficients c =
      starts ? EvolveCoefficients{0, 0, 0, 1, 0} : form.c;
  const FusedAttentionOutput out = fused_attention(
      q, k, v, c.a != 0.0 || c.p != 0.0 ? previous : Var(),
      c.w != 0.0 ? form.weight : Var(), c.w != 0.0 ? form.bias : Var(),
      context.maps,
      {c, scale, form.softmax_scale, dropout_.at(),
       wanted.carry || wanted.probabilities,
       /*shift=*/{}, slots_.bias ? slots_.bias->map(q, context) : Var()});
  Var probabilities;  // computing them changes no other bit
  if (wanted.probabilities) {
    probabilities =
        slots_.scope->normalise(out.carry, form.softmax_scale, context);
  }
  return {out.context, {out.carry, context.maps}, probabilities};
}

}  // namespace ea
