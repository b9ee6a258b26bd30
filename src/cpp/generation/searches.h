// The searches, and the rules, scores and random numbers that they share.
#pragma once

#include <span>

#include "generation/search.h"

namespace ea {

// The targets requested for one source.
struct Request {
  std::int64_t number;               // the caller's number of the source
  std::vector<std::int64_t> prefix;  // the first tokens
  std::int64_t limit;                // most tokens after the prefix
};

// Greedy search, or sampling: one token after another.
std::vector<Generated> single_search(TargetState& state,
                                     const SearchSettings& settings,
                                     const std::vector<Request>& requests,
                                     const Interrupt& interrupt);

// Beam search as in transformers, with 2 * beams candidates per step; ended
// candidates among the first `beams` become finished targets. With sampling,
// the candidates are drawn, without replacement, from the softmax of the scores
// of all continuations, whose log probabilities are divided by the temperature
// and truncated. Drawn candidates are ordered by the time of drawing.
std::vector<Generated> beam_search(TargetState& state,
                                   const SearchSettings& settings,
                                   const std::vector<Request>& requests,
                                   const Interrupt& interrupt);

// Returns row i of logits [targets, vocabulary].
std::span<float> row_of(const Tensor& logits, std::size_t i);

// Throws InputError if a logit of the token after `ids` is not finite.
void check_finite(std::span<const float> row, const Request& request,
                  const std::vector<std::int64_t>& ids);

// Returns the ids of the n largest logits of a row, largest first, equal ones
// by id; logits of -infinity are left out.
std::vector<std::int64_t> best_ids(std::span<const float> row, std::size_t n);

// Returns log(sum of exp(row)), accumulated in double precision and in order.
double log_sum_exp(std::span<const float> row);

// Returns the score of `tokens` tokens whose log probabilities have this sum.
double penalised(double sum, std::int64_t tokens,
                 const SearchSettings& settings);

// Returns the only token that may follow `ids`, if a rule forces one; its score
// is 0.
std::optional<std::int64_t> forced_token(const SearchSettings& settings,
                                         const Request& request,
                                         const std::vector<std::int64_t>& ids);

// Sets the logits of tokens that must not follow `ids` to -infinity.
void ban_tokens(std::span<float> row, const SearchSettings& settings,
                const Request& request, const std::vector<std::int64_t>& ids);

[[noreturn]] void no_token_left(const Request& request,
                                const std::vector<std::int64_t>& ids);

}  // namespace ea
