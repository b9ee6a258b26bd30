// Drawing tokens: which ones, how probable, and the random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generation/search.h"

namespace ea {

// Tokens that may be drawn, by id, and their probabilities, of sum 1.
struct Distribution {
  std::vector<std::int64_t> ids;
  std::vector<double> probabilities;
};

// Logits of -infinity have no probability; all of them: nothing can be drawn.
// Truncation leaves at least so many tokens, if there are as many.
Distribution distribution(std::span<const float> logits,
                          const Sampling& sampling, std::size_t least = 1);

// Where the cumulative probability exceeds u times the sum, u in [0, 1); of
// those with a probability, one of which there is.
std::size_t drawn(std::span<const double> probabilities, double u);

// Of the settings' seed; without one, the generator's next.
std::uint64_t random_key(const Sampling& sampling);

// In [0, 1), by (key, the sentence's number, its copy, place of the token).
double uniform(std::uint64_t key, std::int64_t number, std::int64_t copy,
               std::size_t place);

}  // namespace ea
