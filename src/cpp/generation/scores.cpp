// The best ids of a row of logits, and log probabilities.
#include <algorithm>
#include <cmath>

#include "generation/searches.h"
#include "runtime/check.h"

namespace ea {

std::span<const float> row_of(const Tensor& logits, std::size_t i) {
  const auto classes = static_cast<std::size_t>(logits.dim(1));
  return {logits.data<float>() + i * classes, classes};
}

std::vector<std::int64_t> best_ids(std::span<const float> row, std::size_t n,
                                   std::int64_t sentence) {
  const auto better = [row](std::int64_t a, std::int64_t b) {
    const float x = row[static_cast<std::size_t>(a)];
    const float y = row[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int64_t> heap;  // its first is the worst of the best
  heap.reserve(n + 1);
  for (std::size_t c = 0; c < row.size(); ++c) {
    const auto id = static_cast<std::int64_t>(c);
    EA_CHECK_AS(InputError, std::isfinite(row[c]), "generate",
                "the score of token {} for sentence {} is {}: the weights are "
                "damaged, or come from a run that diverged",
                id, sentence, row[c]);
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

double penalised(double sum, std::int64_t tokens, double length_penalty) {
  return sum / std::pow(static_cast<double>(tokens), length_penalty);
}

}  // namespace ea
