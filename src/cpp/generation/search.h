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
  never,     // the same, but if it ended at the length that suits it best
};

// What the sum of the log probabilities of n new tokens is divided by, with the
// exponent p.
enum class LengthPenalty {
  power,  // n ^ p
  gnmt,   // ((5 + n) / 6) ^ p (Wu et al., 2016, equation 14)
};

// Tokens are drawn from softmax(logits / temperature), of which only the most
// probable stay, and are scaled to a sum of 1. With beams: searches.h.
struct Sampling {
  double temperature = 1.0;
  std::int64_t top_k = 0;  // those at least as probable as the k-th; 0: all
  double top_p = 1.0;      // the fewest with a sum of at least top_p
  std::optional<std::int64_t> seed;  // without one the generator's
};

struct SearchSettings {
  std::int64_t start = 0;  // the first token of every target
  std::int64_t end = 0;    // the token that ends a target
  // Tokens of a target behind its prefix, the end counts. By default as many as
  // the source has and 50 more (Vaswani et al., Section 6.1).
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_length;    // instead; the prefix counts
  std::int64_t min_new_tokens = 0;           // no end before them
  std::int64_t min_length = 0;               // the same; the prefix counts
  std::int64_t no_repeat_ngram_size = 0;     // no n-gram twice; 0: no such rule
  std::optional<std::int64_t> forced_first;  // the token behind a lone start
  std::optional<std::int64_t> forced_last;   // the token at the limit
  // The first tokens of the target of each source, `start` included; none:
  // `start` alone.
  std::vector<std::vector<std::int64_t>> prefixes;
  // The caller's number of each source, for messages and random numbers; none:
  // from 0 on.
  std::vector<std::int64_t> numbers;
  std::int64_t beams = 1;  // 1: one token after another
  double length_penalty = 1.0;
  LengthPenalty form = LengthPenalty::power;
  EarlyStopping early_stopping = EarlyStopping::unlikely;
  std::optional<Sampling> sampling;  // instead of the most probable token
  std::int64_t returned = 1;  // targets of each source, of beams best first
  bool scored = false;        // whether searches without beams compute scores
  bool cached = true;
};

struct Generated {
  std::vector<std::int64_t> ids;  // prefix .. end
  // Of every token but the first: log p, by the model's softmax over all
  // tokens, of drawn beams divided by the temperature; 0 in the prefix and
  // where a token is forced.
  std::vector<double> token_scores;
  double score = 0.0;  // their sum, divided by the length penalty
  bool ended = false;  // false: the limit came before the end
};

// Called before every token; what it throws ends the search.
using Interrupt = std::function<void()>;

// `returned` targets for each source. A target's bits do not depend on the
// other sources. Equal scores: the smaller id. Dropout is off. Throws
// ConfigError if a setting cannot be used, InputError if a logit is not finite.
std::vector<Generated> search(Seq2SeqModel& model, const Inputs& source,
                              const SearchSettings& settings,
                              const Interrupt& interrupt);

}  // namespace ea
