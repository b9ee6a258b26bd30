// Defaults of a spec, and the check of which slots can be combined.
#include "nn/attention/spec.h"

namespace ea {

namespace {

template <typename Slot>
SlotMaker<Slot> plain(const char* kind) {
  Options options;
  options.set("kind", std::string(kind));
  return slot_maker<Slot>(options);
}

// Whether maps go on from one layer to the next: dense maps do so from and to
// causal ones. A scope written in Python decides in each pass.
bool continues_maps(const AttentionSpec& next, const AttentionSpec& previous) {
  Options a = next.scope.options, b = previous.scope.options;
  if (!a.has("kind") || !b.has("kind")) return true;
  for (Options* options : {&a, &b}) options->set("causal", false);
  return a == b;
}

}  // namespace

AttentionSpec::AttentionSpec()
    : score(plain<Score>("dot")),
      scope(plain<Scope>("dense")),
      evolve(plain<Evolve>("vanilla")) {}

StackPlace place_in_chain(const AttentionSpecs& specs,
                          const StackPlace& layer) {
  if (specs.size() == 1) return layer;
  const auto continues = [&specs](int i) {
    const auto at = static_cast<std::size_t>(i);
    return continues_maps(specs[at], specs[at - 1]);
  };
  int first = layer.index, end = layer.index + 1;
  while (first > 0 && continues(first)) --first;
  while (end < layer.count && continues(end)) ++end;
  return {layer.index - first, end - first};
}

double of_layer(const Options& options, const char* key, const SlotSite& site) {
  const std::vector<double> all = options.numbers(key);
  const StackPlace place = site.in_stack();
  EA_CHECK_AS(
      ConfigError,
      all.size() == 1 || all.size() == static_cast<std::size_t>(place.count),
      "attention",
      "{} has {} numbers for {} layers; expected one for all layers, "
      "or one for each",
      key, all.size(), place.count);
  return all[all.size() == 1 ? 0 : static_cast<std::size_t>(place.index)];
}

const AttentionSpec& spec_of_layer(const AttentionSpecs& specs, int layer,
                                   int num_layers) {
  EA_CHECK_AS(
      ConfigError,
      specs.size() == 1 || specs.size() == static_cast<std::size_t>(num_layers),
      "attention",
      "{} specs for {} layers; expected one for all, or one for each",
      specs.size(), num_layers);
  const AttentionSpec& own =
      specs[specs.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
  const Options& first = specs.front().bias.options;
  EA_CHECK_AS(
      ConfigError, !own.bias.of_stack || own.bias.options == first, "attention",
      "layer {} has the bias '{}', which layer 0 has not, or with other "
      "options; its parameters are those of layer 0: give both the "
      "same bias",
      layer, own.bias.options.text("kind"));
  return own;
}

Slots make_slots(const AttentionSpec& spec, const SlotSite& site) {
  Slots slots{spec.score(site), spec.scope(site),
              spec.bias ? spec.bias(site) : nullptr, spec.evolve(site)};
  EA_CHECK_AS(
      ConfigError,
      !slots.scope->causal() || !slots.evolve->reads_later_queries(),
      "attention",
      "the evolve slot has a kernel of size {}, which reads the maps of "
      "later queries: a causal scope rules them out; use kernel_size=1, the "
      "kind evolving_causal with shift='diagonal' or 'query', or a scope that "
      "is not causal",
      slots.evolve->kernel_size());
  EA_CHECK_AS(ConfigError,
              slots.scope->sums_pairs() || !slots.score->sums_pairs(),
              "attention",
              "the score slot adds queries and keys, the scope has their "
              "products alone; use the score dot or multiplicative, or the "
              "scope dense");
  if (slots.scope->grid()) return slots;
  EA_CHECK_AS(ConfigError, slots.evolve->kernel_size() == 1, "attention",
              "the evolve slot has a kernel of size {}, which needs a scope "
              "whose cells form a grid of queries and keys (dense); use "
              "kernel_size=1, or the scope dense",
              slots.evolve->kernel_size());
  EA_CHECK_AS(ConfigError, !slots.bias || !slots.bias->needs_grid(),
              "attention",
              "the bias slot needs a scope whose cells form a grid of queries "
              "and keys (dense); leave the bias out, or use the scope dense");
  return slots;
}

}  // namespace ea
