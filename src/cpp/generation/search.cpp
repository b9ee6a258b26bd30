// Checks the settings, encodes the sources and chooses the search.
#include "generation/search.h"

#include <algorithm>
#include <cmath>

#include "generation/searches.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Evaluation mode while it exists.
class Evaluation {
 public:
  explicit Evaluation(Module& module)
      : module_(module), before_(module.training()) {
    if (before_) module_.train(false);
  }
  ~Evaluation() {
    if (before_) module_.train(true);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  Module& module_;
  bool before_;
};

void check_range(const char* name, std::int64_t value, std::int64_t least,
                 std::int64_t most, const char* reason) {
  EA_CHECK_AS(ConfigError, value >= least && value <= most, "generate",
              "{} = {}, expected {} to {} ({})", name, value, least, most,
              reason);
}

void check(const Seq2SeqModel& model, const SearchSettings& s) {
  model.check_order();
  const std::int64_t words = model.target_vocabulary();
  const char* of_words = "the target's vocabulary";
  check_range("decoder_start_token_id", s.start, 0, words - 1, of_words);
  check_range("eos_token_id", s.end, 0, words - 1, of_words);
  check_range("num_beams", s.beams, 1, words, of_words);
  check_range("num_return_sequences", s.returned, 1, s.beams, "num_beams");
  if (s.max_new_tokens) {
    check_range("max_new_tokens", *s.max_new_tokens, 1, model.longest_target(),
                "max_position_embeddings");
  }
  EA_CHECK_AS(ConfigError, std::abs(s.length_penalty) <= 10, "generate",
              "length_penalty = {}, expected -10 to 10", s.length_penalty);
}

}  // namespace

std::vector<Generated> search(Seq2SeqModel& model, const Inputs& source,
                              const SearchSettings& settings,
                              const Interrupt& interrupt) {
  check(model, settings);
  const Evaluation evaluation(model);
  const std::unique_ptr<TargetState> state =
      model.start(source, settings.cached);
  std::vector<std::int64_t> limits = state->source_lengths();
  for (std::int64_t& limit : limits) {
    limit = settings.max_new_tokens.value_or(
        std::min(limit + 50, model.longest_target()));
  }
  return settings.beams == 1
             ? greedy_search(*state, settings, limits, interrupt)
             : beam_search(*state, settings, limits, interrupt);
}

}  // namespace ea
