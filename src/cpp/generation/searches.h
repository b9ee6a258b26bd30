// The two searches, and what they share: limits and scores.
#pragma once

#include <span>

#include "generation/search.h"

namespace ea {

std::vector<Generated> greedy_search(TargetState& state,
                                     const SearchSettings& settings,
                                     const std::vector<std::int64_t>& limits,
                                     const Interrupt& interrupt);

// As transformers' beam search; 2 * beams candidates a step, of which the ended
// ones among the first `beams` become finished targets.
std::vector<Generated> beam_search(TargetState& state,
                                   const SearchSettings& settings,
                                   const std::vector<std::int64_t>& limits,
                                   const Interrupt& interrupt);

// Row i of logits [targets, vocabulary].
std::span<const float> row_of(const Tensor& logits, std::size_t i);

// The largest logits of a row and their ids, largest first, equal ones by id.
// Throws InputError naming `sentence` if a logit is not finite.
std::vector<std::int64_t> best_ids(std::span<const float> row, std::size_t n,
                                   std::int64_t sentence);

// log(sum of exp(row)), in double precision and in order.
double log_sum_exp(std::span<const float> row);

// A sum of log probabilities as a score.
double penalised(double sum, std::int64_t tokens, double length_penalty);

}  // namespace ea
