// Relative positions in buckets (Raffel et al., JMLR 2020): S_ij += b_{bucket(j
// - i)}, one number per bucket and head, the same in all layers of a stack.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "nn/attention/registry.h"
#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/relative_cells.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// Half of the buckets of a direction hold one distance each. The others are
// spaced logarithmically up to the distance `farthest`; all larger distances
// share the last bucket. Without `both`, later keys share the bucket of
// distance 0.
struct Buckets {
  std::int64_t number, farthest;
  bool both;

  std::int64_t of_direction() const { return both ? number / 2 : number; }
  std::int64_t exact() const { return of_direction() / 2; }

  // Computed in single precision, as in the programs whose checkpoints are
  // read: rounding decides where one bucket ends and the next begins.
  std::int64_t operator()(std::int64_t distance) const {
    const std::int64_t first = both && distance > 0 ? of_direction() : 0;
    const std::int64_t away =
        both ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
    if (away < exact()) return first + away;
    const auto nearest = static_cast<float>(exact());
    const float growth =
        std::log(static_cast<float>(away) / nearest) /
        static_cast<float>(std::log(static_cast<double>(farthest) /
                                    static_cast<double>(exact()))) *
        static_cast<float>(of_direction() - exact());
    return first + std::min(exact() + static_cast<std::int64_t>(growth),
                            of_direction() - 1);
  }
};

// Returns the position of each sequence's first query among its keys.
std::vector<std::int64_t> first_places(const Packing& maps) {
  std::vector<std::int64_t> places;
  const auto& q = maps.q_offsets();
  const auto& k = maps.k_offsets();
  for (std::size_t b = 1; b < q.size(); ++b) {
    const std::int64_t more = (k[b] - k[b - 1]) - (q[b] - q[b - 1]);
    places.push_back(maps.is_causal() ? more : 0);
  }
  return places;
}

// The table b [buckets, heads] is a parameter of the first layer of a stack.
class BucketBias final : public Bias {
 public:
  BucketBias(const Buckets& buckets, std::optional<double> deviation,
             const SlotSite& site)
      : buckets_(buckets) {
    if (site.in_stack().index > 0) return;
    const auto width = static_cast<double>(site.heads * site.head_key_width);
    table_ = add_parameter(
        "relative_attention_bias.weight", {buckets.number, site.heads},
        site.dtype, Init::normal(deviation.value_or(1.0 / std::sqrt(width))));
  }

  bool shared() const override { return true; }
  Var table() const override { return table_; }
  bool knows_last_rows() const override { return true; }

  Var map(const Var& /*q*/, const AttentionContext& context) const override {
    EA_CHECK_AS(ConfigError, context.table.defined(), "attention",
                "layer {} adds the buckets' map of the first layer of its "
                "stack, which has none; expected the bias 'buckets' in layer "
                "0 too",
                context.layer);
    const PackingPtr& maps = context.maps;
    const std::vector<std::int64_t> places = first_places(*maps);
    std::vector<std::int64_t> kinds = places;
    std::sort(kinds.begin(), kinds.end());
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    const std::int64_t most = reach(*maps, kinds);
    const Var numbers =
        by_offset(context.table, kinds, most, maps->is_causal());
    // Index into `kinds` for each query, by its sequence.
    std::vector<std::int64_t> kind_of;
    for (std::size_t b = 0; b < places.size(); ++b) {
      const auto kind = std::lower_bound(kinds.begin(), kinds.end(), places[b]);
      kind_of.insert(kind_of.end(),
                     static_cast<std::size_t>(maps->q_offsets()[b + 1] -
                                              maps->q_offsets()[b]),
                     kind - kinds.begin());
    }
    return relative_cells(
        reshape(gather_rows(numbers, from_values(kind_of)),
                {maps->total_queries() * maps->heads(), 2 * most + 1}),
        maps);
  }

 private:
  // Returns the largest |j - i| to tell apart.
  std::int64_t reach(const Packing& maps,
                     const std::vector<std::int64_t>& kinds) const {
    const std::int64_t longest =
        std::max<std::int64_t>(
            1, std::max(maps.longest_query(), maps.longest_key())) -
        1;
    const bool plain = kinds.empty() || (kinds.size() == 1 && kinds[0] == 0);
    return plain ? std::min(longest, buckets_.farthest) : longest;
  }

  // Returns [kinds, heads (2 most + 1)]: for each head, the numbers for j - i =
  // -most .. most; 0 where a causal map has no cell.
  Var by_offset(const Var& table, const std::vector<std::int64_t>& kinds,
                std::int64_t most, bool causal) const {
    std::vector<std::int64_t> ids;
    for (const std::int64_t first : kinds) {
      for (std::int64_t e = -most; e <= most; ++e) {
        const std::int64_t distance = e - first;
        ids.push_back(causal && distance > 0 ? -1 : buckets_(distance));
      }
    }
    const auto n = static_cast<std::int64_t>(kinds.size());
    const std::int64_t heads = table.dim(1);
    const Var numbers =
        reshape(gather_rows(table, from_values(ids)), {n, 2 * most + 1, heads});
    return reshape(transpose(numbers, 1, 2), {n, heads * (2 * most + 1)});
  }

  Buckets buckets_;
  Var table_;  // undefined after the first layer
};

std::unique_ptr<Bias> make_buckets(const Options& options,
                                   const SlotSite& site) {
  const Buckets buckets{options.integer("num_buckets"),
                        options.integer("max_distance"),
                        options.flag("bidirectional")};
  EA_CHECK_AS(ConfigError, !buckets.both || buckets.number % 2 == 0,
              "attention.buckets",
              "num_buckets = {} must be even: half of them are of later keys",
              buckets.number);
  EA_CHECK_AS(ConfigError,
              buckets.exact() > 0 && buckets.farthest > buckets.exact(),
              "attention.buckets",
              "max_distance = {} with num_buckets = {}; expected more than the "
              "{} distances that have a bucket of their own, which are at "
              "least 1",
              buckets.farthest, buckets.number, buckets.exact());
  std::optional<double> deviation;
  if (options.has("initial_std")) deviation = options.number("initial_std");
  return std::make_unique<BucketBias>(buckets, deviation, site);
}

const Register<Bias> kBuckets({
    "buckets",
    "Raffel et al., JMLR 2020",
    {
        {.name = "num_buckets",
         .type = "int",
         .fallback = 32,
         .low = 2,
         .high = 1 << 20,
         .doc = "rows of the table"},
        {.name = "max_distance",
         .type = "int",
         .fallback = 128,
         .low = 2,
         .high = 1 << 24,
         .doc = "the distance from which on all share the last bucket"},
        {.name = "bidirectional",
         .type = "bool",
         .fallback = true,
         .doc = "whether later keys have buckets of their own: in a decoder "
                "they do not exist"},
        {.name = "initial_std",
         .type = "float?",
         .high = 1e6,
         .doc = "the standard deviation of the table's initial values "
                "(default: 1 / sqrt(heads * width of a head))"},
    },
    make_buckets,
    true,
});

}  // namespace

}  // namespace ea
