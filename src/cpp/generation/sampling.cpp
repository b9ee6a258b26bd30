// Truncated distributions, and random numbers from Philox.
#include "generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "runtime/philox.h"
#include "runtime/random.h"

namespace ea {

namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Returns the k-th largest logit, or -infinity if all logits are kept.
float threshold(std::span<const float> logits, std::int64_t k) {
  if (k == 0 || k >= static_cast<std::int64_t>(logits.size())) return kBanned;
  std::vector<float> sorted(logits.begin(), logits.end());
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(),
                   std::greater<>());
  return sorted[static_cast<std::size_t>(k - 1)];
}

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Removes the least probable tokens, with a total probability of at most 1 -
// top_p; of equally probable ones, larger ids first. The `least` most probable
// tokens stay.
void keep_top(Distribution& all, double top_p, std::size_t least) {
  std::vector<std::size_t> order(all.ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&all](std::size_t a, std::size_t b) {
                     return all.probabilities[a] > all.probabilities[b];
                   });
  const double most = (1.0 - top_p) * sum(all.probabilities);
  double removed = 0.0;
  while (order.size() > least) {
    removed += all.probabilities[order.back()];
    if (removed > most) break;
    order.pop_back();
  }
  std::sort(order.begin(), order.end());
  Distribution kept;
  for (const std::size_t i : order) {
    kept.ids.push_back(all.ids[i]);
    kept.probabilities.push_back(all.probabilities[i]);
  }
  all = std::move(kept);
}

}  // namespace

Distribution distribution(std::span<const float> logits,
                          const Sampling& sampling, std::size_t least) {
  Distribution out;
  if (logits.empty()) return out;
  const double highest = *std::max_element(logits.begin(), logits.end());
  const auto kept = static_cast<std::int64_t>(least);
  const float lowest = threshold(
      logits, sampling.top_k == 0 ? 0 : std::max(sampling.top_k, kept));
  for (std::size_t c = 0; c < logits.size(); ++c) {
    if (logits[c] == kBanned || logits[c] < lowest) continue;
    out.ids.push_back(static_cast<std::int64_t>(c));
    out.probabilities.push_back(
        std::exp((logits[c] - highest) / sampling.temperature));
  }
  if (sampling.top_p < 1.0) keep_top(out, sampling.top_p, least);
  const double total = sum(out.probabilities);
  for (double& p : out.probabilities) p /= total;
  return out;
}

std::size_t drawn(std::span<const double> probabilities, double u) {
  const double all = u * sum(probabilities);
  double sum = 0.0;
  // Last entry above 0, for the case that rounding leaves sum <= all.
  std::size_t last = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0.0) continue;
    last = i;
    sum += probabilities[i];
    if (sum > all) break;
  }
  return last;
}

std::uint64_t random_key(const Sampling& sampling) {
  static const StreamSite site = stream_site("generate");
  RandomState state{0, site};
  if (sampling.seed) {
    state.seed = static_cast<std::uint64_t>(*sampling.seed);
  } else {
    state = next_random_stream(site);
  }
  const Philox4 words = philox(state.seed, state.offset, 0);
  return (std::uint64_t{words.v[0]} << 32) | words.v[1];
}

double uniform(std::uint64_t key, std::int64_t number, std::int64_t copy,
               std::size_t place) {
  const std::uint64_t index =
      (static_cast<std::uint64_t>(copy) << 32) | std::uint64_t{place};
  const Philox4 words = philox(key, static_cast<std::uint64_t>(number), index);
  const std::uint64_t bits = (std::uint64_t{words.v[0]} << 32) | words.v[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace ea
