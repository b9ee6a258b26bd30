// The best ids of a row of logits, and log probabilities.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "generation/searches.h"
#include "runtime/check.h"
#include "tensor/finite.h"

namespace ea {

namespace {

// Scores per block, and vector lanes that the compiler keeps in parallel.
constexpr std::size_t kBlock = 256, kLanes = 16;

float highest_of(std::span<const float> row) {
  float highest[kLanes];
  std::fill_n(highest, kLanes, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      highest[lane] = std::max(highest[lane], row[i + lane]);
    }
  }
  for (; i < row.size(); ++i) highest[0] = std::max(highest[0], row[i]);
  return *std::max_element(highest, highest + kLanes);
}

// Returns exp(x) for x <= 0, to 2 units in the last place; x below -87 counts
// as -87. It has no branches, so that the compiler computes several at once.
float exp_of(float x) {
  constexpr auto kLeast = std::bit_cast<std::int32_t>(87.0f);
  x = -std::bit_cast<float>(
      std::min(std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF, kLeast));
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer
  const float n = (x * 0x1.715476p0f + kRound) - kRound;
  // ln 2 in two parts: n times the first is exact.
  const float r = (x - n * 0x1.63p-1f) + n * 0x1.bd0106p-13f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

}  // namespace

std::span<float> row_of(const Tensor& logits, std::size_t i) {
  const auto classes = static_cast<std::size_t>(logits.dim(1));
  return {logits.data<float>() + i * classes, classes};
}

void check_finite(std::span<const float> row, const Request& request,
                  const std::vector<std::int64_t>& ids) {
  const std::int64_t at = first_not_finite(row);
  if (at < 0) return;
  fail<InputError>("generate",
                   "sentence {}, step {}: the score of token {} is {}; the "
                   "weights are damaged, or come from a run that diverged",
                   request.number, ids.size() - request.prefix.size() + 1, at,
                   row[static_cast<std::size_t>(at)]);
}

std::vector<std::int64_t> best_ids(std::span<const float> row, std::size_t n) {
  const auto better = [row](std::int64_t a, std::int64_t b) {
    const float x = row[static_cast<std::size_t>(a)];
    const float y = row[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int64_t> heap;  // the first element is the worst of the best
  heap.reserve(n + 1);
  // A later score is better only if it is greater; -infinity never is.
  float worst = -std::numeric_limits<float>::infinity();
  const auto see = [&](std::size_t c) {
    if (!(row[c] > worst)) return;
    if (heap.size() == n) {
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.pop_back();
    }
    heap.push_back(static_cast<std::int64_t>(c));
    std::push_heap(heap.begin(), heap.end(), better);
    if (heap.size() == n) worst = row[static_cast<std::size_t>(heap.front())];
  };
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const auto block = row.subspan(begin, std::min(kBlock, row.size() - begin));
    if (!(highest_of(block) > worst)) continue;
    for (std::size_t i = 0; i < block.size(); ++i) see(begin + i);
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  return heap;
}

double log_sum_exp(std::span<const float> row) {
  const float highest = highest_of(row);
  double sum = 0.0;
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const auto block = row.subspan(begin, std::min(kBlock, row.size() - begin));
    float terms[kBlock], sums[kLanes] = {};
    std::size_t i = 0;
    for (; i < block.size(); ++i) {
      terms[i] = exp_of(block[i] - highest);
    }
    for (; i % kLanes != 0; ++i) terms[i] = 0.0f;
    for (std::size_t j = 0; j < i; j += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += terms[j + lane];
      }
    }
    for (const float one : sums) sum += one;
  }
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
