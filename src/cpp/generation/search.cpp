// Checks the settings, encodes the sources and chooses the search.
#include "generation/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generation/searches.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostCopies = 1'000'000;
const char* const kPositions = "max_position_embeddings";

// Keeps a module in evaluation mode while this object exists.
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
  EA_CHECK_AS(ConfigError, value >= least || most != kMost, "generate",
              "{} = {}, expected {} or more", name, value, least);
  EA_CHECK_AS(ConfigError, value >= least && value <= most, "generate",
              "{} = {}, expected {} to {} ({})", name, value, least, most,
              reason);
}

void check_not_negative(const char* name, std::int64_t value) {
  EA_CHECK_AS(ConfigError, value >= 0, "generate",
              "{} = {}, expected 0 or more", name, value);
}

void check_tokens(const SearchSettings& s, std::int64_t words) {
  const char* of_words = "the target's vocabulary";
  check_range("decoder_start_token_id", s.start, 0, words - 1, of_words);
  check_range("eos_token_id", s.end, 0, words - 1, of_words);
  if (s.forced_first) {
    check_range("forced_bos_token_id", *s.forced_first, 0, words - 1, of_words);
  }
  if (s.forced_last) {
    check_range("forced_eos_token_id", *s.forced_last, 0, words - 1, of_words);
  }
}

void check_lengths(const SearchSettings& s, std::int64_t longest) {
  check_not_negative("min_new_tokens", s.min_new_tokens);
  check_not_negative("min_length", s.min_length);
  check_not_negative("no_repeat_ngram_size", s.no_repeat_ngram_size);
  EA_CHECK_AS(ConfigError, !s.max_new_tokens || !s.max_length, "generate",
              "max_new_tokens = {} and max_length = {}; expected one of them",
              s.max_new_tokens.value_or(0), s.max_length.value_or(0));
  const std::int64_t limit = s.max_new_tokens.value_or(kMost);
  if (s.max_new_tokens) {
    check_range("max_new_tokens", limit, 1, longest, kPositions);
  }
  if (s.max_length) {
    const std::int64_t most = longest == kMost ? kMost : longest + 1;
    check_range("max_length", *s.max_length, 2, most, kPositions);
  }
  EA_CHECK_AS(ConfigError, s.min_new_tokens <= limit, "generate",
              "min_new_tokens = {}, expected at most max_new_tokens = {}",
              s.min_new_tokens, limit);
  EA_CHECK_AS(ConfigError, s.min_length <= s.max_length.value_or(kMost),
              "generate", "min_length = {}, expected at most max_length = {}",
              s.min_length, s.max_length.value_or(kMost));
}

void check_sampling(const SearchSettings& s) {
  const Sampling& drawn = *s.sampling;
  EA_CHECK_AS(ConfigError,
              drawn.temperature > 0 && std::isfinite(drawn.temperature),
              "generate",
              "temperature = {}, expected a number above 0; for the most "
              "probable tokens leave do_sample out",
              drawn.temperature);
  EA_CHECK_AS(ConfigError, drawn.top_p > 0 && drawn.top_p <= 1, "generate",
              "top_p = {}, expected a number above 0, at most 1", drawn.top_p);
  check_not_negative("top_k", drawn.top_k);
  if (drawn.seed) check_not_negative("seed", *drawn.seed);
}

void check(const Seq2SeqModel& model, const SearchSettings& s) {
  model.check_order();
  const std::int64_t words = model.target_vocabulary();
  check_tokens(s, words);
  check_range("num_beams", s.beams, 1, words, "the target's vocabulary");
  check_lengths(s, model.longest_target());
  if (s.sampling) check_sampling(s);
  if (s.sampling && s.beams == 1) {
    check_range("num_return_sequences", s.returned, 1, kMostCopies,
                "drawn targets of a source");
  } else {
    check_range("num_return_sequences", s.returned, 1, s.beams, "num_beams");
  }
  EA_CHECK_AS(ConfigError, std::abs(s.length_penalty) <= 10, "generate",
              "length_penalty = {}, expected -10 to 10", s.length_penalty);
}

void check_count(const char* name, std::size_t found, std::size_t sources) {
  EA_CHECK(found == 0 || found == sources, "generate",
           "{} has {} rows, expected one for each of {} sources", name, found,
           sources);
}

std::int64_t limit_of(const SearchSettings& s, const Request& request,
                      std::int64_t source, std::int64_t longest) {
  const auto prefix = static_cast<std::int64_t>(request.prefix.size());
  std::int64_t limit = std::min(source + 50, longest - prefix + 1);
  if (s.max_new_tokens) limit = *s.max_new_tokens;
  if (s.max_length) limit = *s.max_length - prefix;
  EA_CHECK_AS(
      ConfigError, limit >= 1 && limit <= longest - prefix + 1, "generate",
      "sentence {}: a prefix of {} tokens and {} new ones take {} "
      "positions, expected at least one new one and at most {} ({}); "
      "shorten the prefix, or change the limit",
      request.number, prefix, limit, prefix + limit - 1, longest, kPositions);
  return limit;
}

// Returns the most tokens that all targets together may have; a request's limit
// counts up to kMostCopies.
std::int64_t most_tokens(const std::vector<Request>& requests,
                         const SearchSettings& s) {
  std::int64_t tokens = 0;
  for (const Request& request : requests) {
    const std::int64_t limit = std::min(request.limit, kMostCopies);
    tokens += static_cast<std::int64_t>(request.prefix.size()) + limit;
  }
  return tokens * std::max(s.beams, s.returned);
}

std::vector<Request> requests_of(const SearchSettings& s,
                                 const std::vector<std::int64_t>& sources,
                                 const Seq2SeqModel& model) {
  check_count("decoder_input_ids", s.prefixes.size(), sources.size());
  check_count("sentence_numbers", s.numbers.size(), sources.size());
  const std::int64_t words = model.target_vocabulary();
  std::vector<Request> out;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Request request{static_cast<std::int64_t>(i), {s.start}, 0};
    if (!s.numbers.empty()) request.number = s.numbers[i];
    if (!s.prefixes.empty()) request.prefix = s.prefixes[i];
    EA_CHECK_AS(InputError, !request.prefix.empty(), "generate",
                "decoder_input_ids[{}] is empty, expected a token", i);
    for (const std::int64_t id : request.prefix) {
      EA_CHECK_AS(InputError, id >= 0 && id < words, "generate",
                  "decoder_input_ids[{}] has the token {}, expected 0 to {} "
                  "(the target's vocabulary)",
                  i, id, words - 1);
    }
    request.limit = limit_of(s, request, sources[i], model.longest_target());
    out.push_back(std::move(request));
  }
  return out;
}

}  // namespace

std::vector<Generated> search(Seq2SeqModel& model, const Inputs& source,
                              const SearchSettings& settings,
                              const Interrupt& interrupt) {
  check(model, settings);
  const Evaluation evaluation(model);
  const std::unique_ptr<TargetState> state =
      model.start(source, settings.cached);
  const std::vector<Request> requests =
      requests_of(settings, state->source_lengths(), model);
  state->expect(most_tokens(requests, settings));
  return settings.beams == 1
             ? single_search(*state, settings, requests, interrupt)
             : beam_search(*state, settings, requests, interrupt);
}

}  // namespace ea
