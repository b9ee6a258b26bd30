// Greedy search: the most probable token, again and again.
#include <numeric>

#include "generation/searches.h"

namespace ea {

std::vector<Generated> greedy_search(TargetState& state,
                                     const SearchSettings& settings,
                                     const std::vector<std::int64_t>& limits,
                                     const Interrupt& interrupt) {
  std::vector<Generated> out(limits.size(), {{settings.start}, 0.0, false});
  std::vector<std::int64_t> live(limits.size());  // sentences that go on
  std::iota(live.begin(), live.end(), 0);
  std::vector<std::int64_t> last(live.size(), settings.start);
  for (std::int64_t tokens = 1; !live.empty(); ++tokens) {
    interrupt();
    const Tensor logits = state.next(last);
    std::vector<std::int64_t> kept, next_live, next_last;
    for (std::size_t i = 0; i < live.size(); ++i) {
      const auto sentence = static_cast<std::size_t>(live[i]);
      Generated& target = out[sentence];
      const std::span<const float> row = row_of(logits, i);
      const std::int64_t id = best_ids(row, 1, live[i]).front();
      target.ids.push_back(id);
      target.ended = id == settings.end;
      if (settings.scored) {
        target.score += row[static_cast<std::size_t>(id)] - log_sum_exp(row);
      }
      if (target.ended || tokens == limits[sentence]) {
        target.score = penalised(target.score, tokens, settings.length_penalty);
        continue;
      }
      kept.push_back(static_cast<std::int64_t>(i));
      next_live.push_back(live[i]);
      next_last.push_back(id);
    }
    if (kept.size() < live.size() && !kept.empty()) state.select(kept);
    live = std::move(next_live);
    last = std::move(next_last);
  }
  return out;
}

}  // namespace ea
