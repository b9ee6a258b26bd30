// Drawing of tokens: distributions, and random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generation/search.h"

namespace ea {

// Tokens that may be drawn, by id, and their probabilities, which sum to 1.
struct Distribution {
  std::vector<std::int64_t> ids;
  std::vector<double> probabilities;
};

// Logits of -infinity have no probability; if all are -infinity, nothing can be
// drawn. Truncation keeps at least `least` tokens, if there are as many.
Distribution distribution(std::span<const float> logits,
                          const Sampling& sampling, std::size_t least = 1);

// Returns the first index where the cumulative probability exceeds u times the
// sum, u in [0, 1). Only entries above 0 are chosen; if there are none,
// the result is 0.
std::size_t drawn(std::span<const double> probabilities, double u);

// Returns the key of the settings' seed or, without a seed, the generator's
// next.
std::uint64_t random_key(const Sampling& sampling);

// Returns a number in [0, 1) that depends on the key, the sentence's number,
// its copy and the token's position.
double uniform(std::uint64_t key, std::int64_t number, std::int64_t copy,
               std::size_t place);

}  // namespace ea
