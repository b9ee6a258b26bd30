// The best ids of a row of logits, and log probabilities.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "generation/searches.h"
#include "runtime/check.h"

namespace ea {

std::span<float> row_of(const Tensor& logits, std::size_t i) {
  const auto classes = static_cast<std::size_t>(logits.dim(1));
  return {logits.data<float>() + i * classes, classes};
}

void check_finite(std::span<const float> row, const Request& request,
                  const std::vector<std::int64_t>& ids) {
  constexpr std::uint32_t kExponent = 0x7F800000;  // all ones: NaN or infinite
  std::uint32_t bad = 0;
  for (const float x : row) {
    bad |= (std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent ? 1U : 0U;
  }
  if (bad == 0) [[likely]]
    return;
  const auto at = std::find_if_not(row.begin(), row.end(),
                                   [](float x) { return std::isfinite(x); });
  fail<InputError>("generate",
                   "sentence {}, step {}: the score of token {} is {}; the "
                   "weights are damaged, or come from a run that diverged",
                   request.number, ids.size() - request.prefix.size() + 1,
                   at - row.begin(), *at);
}

std::vector<std::int64_t> best_ids(std::span<const float> row, std::size_t n) {
  const auto better = [row](std::int64_t a, std::int64_t b) {
    const float x = row[static_cast<std::size_t>(a)];
    const float y = row[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int64_t> heap;  // its first is the worst of the best
  heap.reserve(n + 1);
  for (std::size_t c = 0; c < row.size(); ++c) {
    const auto id = static_cast<std::int64_t>(c);
    if (row[c] == -std::numeric_limits<float>::infinity()) continue;
    if (heap.size() == n) {
      if (!better(id, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.pop_back();
    }
    heap.push_back(id);
    std::push_heap(heap.begin(), heap.end(), better);
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  return heap;
}

double log_sum_exp(std::span<const float> row) {
  const double highest = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const float x : row) sum += std::exp(x - highest);
  return highest + std::log(sum);
}

double penalised(double sum, std::int64_t tokens,
                 const SearchSettings& settings) {
  const auto n = static_cast<double>(tokens);
  const double base =
      settings.form == LengthPenalty::gnmt ? (5.0 + n) / 6.0 : n;
  return sum / std::pow(base, settings.length_penalty);
}

}  // namespace ea
