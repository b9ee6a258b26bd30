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

struct SearchSettings {
  std::int64_t start = 0;  // the first token of every target
  std::int64_t end = 0;    // the token that ends a target
  // Tokens of a target, the end counts, the start does not. By default as many
  // as the source has and 50 more (Vaswani et al., Section 6.1).
  std::optional<std::int64_t> max_new_tokens;
  std::int64_t beams = 1;  // 1: greedy search
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::unlikely;
  std::int64_t returned = 1;  // targets of each source, best first
  bool scored = false;        // whether greedy search computes scores
  bool cached = true;
};

struct Generated {
  std::vector<std::int64_t> ids;  // start .. end
  // Sum of the log probabilities of n new tokens / n ^ length_penalty.
  double score = 0.0;
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
