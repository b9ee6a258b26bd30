// Rules that decide which tokens may follow, as in transformers' logits
// processors.
#include <algorithm>
#include <limits>

#include "generation/searches.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Ids = std::vector<std::int64_t>;

std::int64_t size_of(const Ids& ids) {
  return static_cast<std::int64_t>(ids.size());
}

void ban(std::span<float> row, std::int64_t id) {
  row[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
}

// Bans tokens that would complete an n-gram that `ids` already contain.
void ban_repeats(std::span<float> row, const Ids& ids, std::int64_t n) {
  if (size_of(ids) < n) return;
  const auto tail = ids.end() - (n - 1);
  for (auto gram = ids.begin(); ids.end() - gram >= n; ++gram) {
    if (std::equal(tail, ids.end(), gram)) ban(row, gram[n - 1]);
  }
}

}  // namespace

std::optional<std::int64_t> forced_token(const SearchSettings& settings,
                                         const Request& request,
                                         const Ids& ids) {
  const std::int64_t made = size_of(ids) - size_of(request.prefix);
  if (settings.forced_last && made == request.limit - 1) {
    return settings.forced_last;
  }
  return ids.size() == 1 ? settings.forced_first : std::nullopt;
}

void ban_tokens(std::span<float> row, const SearchSettings& settings,
                const Request& request, const Ids& ids) {
  if (settings.no_repeat_ngram_size > 0) {
    ban_repeats(row, ids, settings.no_repeat_ngram_size);
  }
  const std::int64_t made = size_of(ids) - size_of(request.prefix);
  if (size_of(ids) < settings.min_length || made < settings.min_new_tokens) {
    ban(row, settings.end);
  }
}

void no_token_left(const Request& request, const Ids& ids) {
  fail<ConfigError>(
      "generate",
      "sentence {}, step {}: the rules (no_repeat_ngram_size, min_length, "
      "min_new_tokens) leave no token; expected at least one: loosen them, or "
      "set a smaller max_new_tokens",
      request.number, ids.size() - request.prefix.size() + 1);
}

}  // namespace ea
