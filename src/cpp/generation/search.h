// Search for the targets of a batch of sources.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "models/seq2seq.h"

namespace ea {

// When beam search ends for a sentence that has `beams` finished targets.
enum class EarlyStopping {
  at_once,
  unlikely,  // when the best running target, if it ended now, would not beat
             // the worst finished one
  never,     // as `unlikely`, but if it ended at the length that suits it best
};

// Divisor of the sum of the log probabilities of n new tokens; p is the
// exponent.
enum class LengthPenalty {
  power,  // n ^ p
  gnmt,   // ((5 + n) / 6) ^ p (Wu et al., 2016, equation 14)
};

// Tokens are drawn from softmax(logits / temperature), truncated to the most
// probable tokens and scaled to a sum of 1. For beams, see searches.h.
struct Sampling {
  double temperature = 1.0;
  std::int64_t top_k = 0;  // those at least as probable as the k-th; 0: all
  double top_p = 1.0;      // the fewest with a sum of at least top_p
  std::optional<std::int64_t> seed;  // none: the generator's
};

struct SearchSettings {
  std::int64_t start = 0;  // the first token of every target
  std::int64_t end = 0;    // the token that ends a target
  // Most tokens of a target after its prefix, including the end token. Default:
  // 50 more than the source has (Vaswani et al., Section 6.1).
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_length;    // instead; includes the prefix
  std::int64_t min_new_tokens = 0;           // no end token before them
  std::int64_t min_length = 0;               // the same, including the prefix
  std::int64_t no_repeat_ngram_size = 0;     // no n-gram twice; 0: no such rule
  std::optional<std::int64_t> forced_first;  // token after a prefix of length 1
  std::optional<std::int64_t> forced_last;   // token at the limit
  // First tokens of the target of each source, including `start`; empty:
  // `start` alone.
  std::vector<std::vector<std::int64_t>> prefixes;
  // The caller's number of each source, for messages and random numbers; empty:
  // counted from 0.
  std::vector<std::int64_t> numbers;
  std::int64_t beams = 1;  // 1: no beam search
  double length_penalty = 1.0;
  LengthPenalty form = LengthPenalty::power;
  EarlyStopping early_stopping = EarlyStopping::unlikely;
  std::optional<Sampling> sampling;  // instead of the most probable token
  std::int64_t returned = 1;  // targets of each source; of beams, best first
  bool scored = false;        // whether searches without beams compute scores
  bool cached = true;
};

struct Generated {
  std::vector<std::int64_t> ids;  // prefix .. end
  // log p of every token but the first, by the model's softmax over all tokens;
  // for drawn beams divided by the temperature; 0 in the prefix and where a
  // token is forced.
  std::vector<double> token_scores;
  double score = 0.0;  // their sum, divided by the length penalty
  bool ended = false;  // false: the limit was reached before the end token
};

// Called before every token; an exception that it throws ends the search.
using Interrupt = std::function<void()>;

// Returns `returned` targets for each source. A target's bits do not depend on
// the other sources. Of equal scores, the smaller id wins. Dropout is off.
// Throws ConfigError if a setting cannot be used, InputError if a logit is not
// finite.
std::vector<Generated> search(Seq2SeqModel& model, const Inputs& source,
                              const SearchSettings& settings,
                              const Interrupt& interrupt);

}  // namespace ea
