// S = score(Q, K) + bias; L = evolve(S, previous); P = softmax(t L); P V.
#include "nn/attention/attention.h"

#include <algorithm>

#include "ops/arithmetic.h"
#include "ops/cached_attention.h"
#include "ops/fused_attention.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

SlotSite site_of(const AttentionConfig& c) {
  return {c.layer, c.num_layers, c.heads, c.head_key_width, c.head_value_width,
          c.dtype, c.place};
}

}  // namespace

const AttentionSpec& AttentionConfig::enter(const AttentionSpecs& specs,
                                            int i) {
  place.index = i;
  const AttentionSpec& spec = spec_of_layer(specs, i, place.count);
  const StackPlace chain = place_in_chain(specs, place);
  layer = chain.index;
  num_layers = chain.count;
  return spec;
}

Attention::Attention(const AttentionConfig& config, const AttentionSpec& spec)
    : config_(config),
      slots_(make_slots(spec, site_of(config))),
      dropout_(config.dropout) {
  if (config.projects) {
    const AttentionConfig& c = config;
    query_.emplace(c.query_size, c.key_size(), c.dtype,
                   c.query_init.value_or(c.init), c.biased);
    key_.emplace(c.memory_size, c.key_size(), c.dtype, c.init, c.biased);
    value_.emplace(c.memory_size, c.value_size(), c.dtype, c.init, c.biased);
    if (reads_queries()) add_child(c.names.query, *query_);
    if (slots_.score->reads_keys()) add_child(c.names.key, *key_);
    add_child(c.names.value, *value_);
  }
  add_child("dropout", dropout_);
  for (Module* slot : {static_cast<Module*>(slots_.score.get()),
                       static_cast<Module*>(slots_.scope.get()),
                       static_cast<Module*>(slots_.bias.get()),
                       static_cast<Module*>(slots_.evolve.get())}) {
    if (slot == nullptr) continue;
    add_child("", *slot);
    slot->mark_addition();
  }
  slots_.scope->check_heads(config.heads);
}

AttentionOutput Attention::forward(const Tokens& queries, const Tokens& memory,
                                   const Carry& previous,
                                   const AttentionWanted& wanted) {
  const auto through = [](const std::optional<Linear>& projection,
                          const Var& rows) {
    return projection ? (*projection)(rows) : rows;
  };
  return attend(
      reads_queries() ? through(query_, queries.rows) : Var(),
      [&] {
        return slots_.score->reads_keys() ? through(key_, memory.rows) : Var();
      },
      [&] { return through(value_, memory.rows); },
      Packing::between(queries.packing, memory.packing, config_.heads),
      previous, wanted);
}

AttentionOutput Attention::attend(const Var& q, const Made& key,
                                  const Made& value, const PackingPtr& tokens,
                                  const Carry& previous,
                                  const AttentionWanted& wanted) {
  AttentionContext context{config_.layer, config_.num_layers, tokens, nullptr,
                           config_.carry_dropout};
  context.maps = slots_.scope->maps(context.tokens);
  Carry next = carried(previous, context.maps);
  const Var before = std::move(next.maps);
  context.depth = next.depth;
  if (slots_.bias && slots_.bias->shared()) share_bias(next, context);
  const std::optional<double> scale = slots_.score->dot_scale();
  const bool fusable = enabled(FastPath::fused_attention) && scale &&
                       slots_.scope->dense() &&
                       !(slots_.bias && slots_.bias->has_values());
  if (fusable) {
    if (const auto form = slots_.evolve->closed_form()) {
      const Var k = key();
      const Var v = value();
      return fused(q, k, v, before, std::move(next), context, *scale, *form,
                   wanted);
    }
  }
  const Var scores = scored(q, key(), context);
  const Evolved evolved = slots_.evolve->step(scores, before, context);
  const Var probabilities =
      slots_.scope->normalise(evolved.logits, evolved.scale, context);
  const Var kept = dropout_(probabilities);
  Var mixed = slots_.scope->mix(kept, value(), context);
  if (slots_.bias) mixed = slots_.bias->mix(mixed, kept, context);
  next.maps = evolved.carry;
  return {mixed, std::move(next), probabilities, scores};
}

Carry Attention::carried(const Carry& previous, const PackingPtr& maps) {
  Carry next = previous;
  next.packing = maps;
  ++next.depth;
  if (previous.packing && !previous.packing->same_maps(*maps)) {
    next.maps = Var();
    next.depth = 0;
  }
  return next;
}

void Attention::share_bias(Carry& next, AttentionContext& context) const {
  if (!next.table.defined()) next.table = slots_.bias->table();
  context.table = next.table;
  if (!next.shared_bias.defined() ||
      !next.shared_packing->same_cells(*context.maps)) {
    next.shared_bias = slots_.bias->map({}, context);
    next.shared_packing = context.maps;
  }
  context.shared_bias = next.shared_bias;
}

bool Attention::reads_queries() const {
  return slots_.score->reads_queries() ||
         (slots_.bias && !slots_.bias->shared());
}

Var Attention::bias_map(const Var& q, const AttentionContext& context) const {
  return slots_.bias->shared() ? context.shared_bias
                               : slots_.bias->map(q, context);
}

Var Attention::scored(const Var& q, const Var& k,
                      const AttentionContext& context) const {
  const Var scores = slots_.score->scores(q, k, *slots_.scope, context);
  const Var sum = slots_.bias ? add(scores, bias_map(q, context)) : scores;
  const bool dot = slots_.score->dot_scale() && !slots_.bias;
  return dot ? sum : existing_cells(sum, context.maps);
}

AttentionOutput Attention::fused(const Var& q, const Var& k, const Var& v,
                                 const Var& previous, Carry next,
                                 const AttentionContext& context, double scale,
                                 const ClosedFormView& form,
                                 const AttentionWanted& wanted) const {
  // The first map of a chain equals the scores.
  const bool starts =
      !previous.defined() && (form.c.a != 0.0 || form.c.p != 0.0);
  const EvolveCoefficients c = starts ? kVanillaStep : form.c;
  const bool kept = wanted.carry || wanted.probabilities || wanted.scores;
  const auto maps = wanted.gradients ? std::make_shared<FusedMaps>() : nullptr;
  const double softmax_scale = form.softmax_scale(context.depth);
  const FusedAttentionOutput out =
      fused_attention(q, k, v, c.a != 0.0 || c.p != 0.0 ? previous : Var(),
                      c.w != 0.0 ? form.weight : Var(),
                      c.w != 0.0 ? form.bias : Var(), context.maps,
                      {c, scale, softmax_scale, dropout_.at(), kept, form.shift,
                       slots_.bias ? bias_map(q, context) : Var(), maps});
  Var probabilities, scores;  // computing them changes no other result
  if (wanted.probabilities) {
    probabilities = slots_.scope->normalise(out.carry, softmax_scale, context);
  }
  if (wanted.scores) scores = scored(q, k, context);
  if (maps && out.context.requires_grad()) {
    maps->observe_logits(out.carry);
    maps->observe_probabilities(probabilities);
    maps->observe_scores(scores);
  }
  next.maps = out.carry;
  return {out.context, std::move(next), probabilities, scores};
}

std::optional<std::int64_t> Attention::reach_back() const {
  const bool bias_of_last_rows =
      !slots_.bias || (slots_.bias->knows_last_rows() && causal());
  if (!bias_of_last_rows || !slots_.scope->dense() ||
      !slots_.score->pairwise()) {
    return {};
  }
  return slots_.evolve->reach_back();
}

AttentionCache Attention::over(const Tokens& memory,
                               const CachePlan& plan) const {
  AttentionCache cache;
  cache.keys = (*key_)(memory.rows).data();
  cache.values = (*value_)(memory.rows).data();
  cache.used = cache.keys.dim(0);
  cache.of_memory = true;
  cache.plan = plan;
  const std::vector<std::int64_t>& offsets = memory.packing->q_offsets();
  for (std::size_t b = 1; b < offsets.size(); ++b) {
    AttentionCache::Rows& rows = cache.rows.emplace_back();
    for (std::int64_t i = offsets[b - 1]; i < offsets[b]; ++i) {
      rows.push_back(i);
    }
  }
  return cache;
}

bool Attention::steps_by_number() const {
  // In bfloat16, a different summation order changes results by whole units in
  // the last place. There, a step uses the summation order of a full pass.
  return config_.dtype != DType::bf16 && enabled(FastPath::fused_attention) &&
         !training() && slots_.score->dot_scale() && slots_.scope->dense() &&
         !slots_.bias && config_.head_key_width == config_.head_value_width &&
         slots_.evolve->closed_form() && reach_back();
}

AttentionOutput Attention::step_by_number(const Tensor& query,
                                          AttentionCache& cache,
                                          const Carry& previous,
                                          bool carry) const {
  const ClosedFormView form = slots_.evolve->closed_form().value();
  const std::vector<std::int64_t> offsets = cache.offsets();
  const bool chained = form.c.a != 0.0 || form.c.p != 0.0;
  Carry next = previous;
  ++next.depth;
  if (chained || carry) {
    const auto tokens = std::make_shared<const Packing>(
        config_.heads, equal_offsets(query.dim(0), 1), offsets);
    next = carried(previous, slots_.scope->maps(tokens));
  }
  CachedEvolving e{form.c, form.softmax_scale(next.depth), form.shift};
  e.carry = carry;
  if (chained) {
    // The first map of a chain equals the scores.
    if (!next.maps.defined()) e.c = kVanillaStep;
    if (next.maps.defined()) e.previous = next.maps.data();
  }
  if (e.c.w != 0.0) {
    e.weight = form.weight.data();
    e.bias = form.bias.data();
    e.map_rows = cache.add_map(config_.heads, form.weight.dim(2));
    e.maps = cache.maps;
  }
  const CachedAttended out = cached_attention(
      query, cache.keys, cache.values, cache.all_rows(), offsets, config_.heads,
      slots_.score->dot_scale().value(), e);
  next.maps = carry ? Var(out.carry) : Var();
  return {Var(out.context), std::move(next), Var(), Var()};
}

AttentionOutput Attention::step(const Var& rows, AttentionCache& cache,
                                const Carry& previous,
                                const AttentionWanted& wanted) {
  const std::int64_t n = rows.dim(0);
  const Var query = (*query_)(rows);
  if (!cache.of_memory) {
    const AttentionCache::Pair to =
        cache.append(rows.data(), config_.key_size(), config_.value_size());
    key_->into(rows.data(), to.keys);
    value_->into(rows.data(), to.values);
  }
  if (cache.plan.by_number) {
    return step_by_number(query.data(), cache, previous, wanted.carry);
  }
  Var queries = reshape(query, {n, 1, query.dim(1)});
  if (cache.queries.defined()) queries = concat({cache.queries, queries}, 1);
  const std::int64_t window = queries.dim(1);
  const AttentionCache::Pair memory = cache.gather();
  const auto tokens = std::make_shared<const Packing>(
      config_.heads, equal_offsets(n, window), cache.offsets());
  AttentionOutput out = attend(
      reshape(queries, {n * window, queries.dim(2)}),
      [&] { return Var(memory.keys); }, [&] { return Var(memory.values); },
      tokens, previous, wanted);
  const std::int64_t kept = std::min(window, cache.plan.earlier);
  cache.queries = kept > 0 ? slice(queries, 1, window - kept, window) : Var();
  const std::int64_t width = out.context.dim(1);
  out.context = reshape(
      slice(reshape(out.context, {n, window, width}), 1, window - 1, window),
      {n, width});
  return out;
}

}  // namespace ea
