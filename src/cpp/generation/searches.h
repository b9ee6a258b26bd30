// The searches, and what they share: rules, scores and random numbers.
#pragma once

#include <span>

#include "generation/search.h"

namespace ea {

// What is to be made for one source.
struct Request {
  std::int64_t number;               // the caller's
  std::vector<std::int64_t> prefix;  // the first tokens
  std::int64_t limit;                // most tokens behind them
};

// Greedy search, or sampling: one token after another.
std::vector<Generated> single_search(TargetState& state,
                                     const SearchSettings& settings,
                                     const std::vector<Request>& requests,
                                     const Interrupt& interrupt);

// As transformers' beam search; 2 * beams candidates a step, of which the ended
// ones among the first `beams` become finished targets. With sampling the
// candidates are drawn, without replacement, from softmax of the scores of all
// continuations, whose log probabilities are divided by the temperature and
// truncated; the first ones are those that are drawn first.
std::vector<Generated> beam_search(TargetState& state,
                                   const SearchSettings& settings,
                                   const std::vector<Request>& requests,
                                   const Interrupt& interrupt);

// Row i of logits [targets, vocabulary].
std::span<float> row_of(const Tensor& logits, std::size_t i);

// Throws InputError if a logit of the token behind `ids` is not finite.
void check_finite(std::span<const float> row, const Request& request,
                  const std::vector<std::int64_t>& ids);

// The largest logits of a row and their ids, largest first, equal ones by id;
// those of -infinity are left out.
std::vector<std::int64_t> best_ids(std::span<const float> row, std::size_t n);

// log(sum of exp(row)), in double precision and in order.
double log_sum_exp(std::span<const float> row);

// A sum of log probabilities of so many tokens as a score.
double penalised(double sum, std::int64_t tokens,
                 const SearchSettings& settings);

// The only token that may follow `ids`, if there is a rule; its score is 0.
std::optional<std::int64_t> forced_token(const SearchSettings& settings,
                                         const Request& request,
                                         const std::vector<std::int64_t>& ids);

// Sets the logits of tokens that must not follow `ids` to -infinity.
void ban_tokens(std::span<float> row, const SearchSettings& settings,
                const Request& request, const std::vector<std::int64_t>& ids);

[[noreturn]] void no_token_left(const Request& request,
                                const std::vector<std::int64_t>& ids);

}  // namespace ea
