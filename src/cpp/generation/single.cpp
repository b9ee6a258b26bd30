// Greedy search and sampling, one token after another.
#include <numeric>

#include "generation/sampling.h"
#include "generation/searches.h"
#include "runtime/threads.h"

namespace ea {

namespace {

// A running target; `copy` is its index among the targets of its source.
struct Line {
  const Request* request;
  std::int64_t copy;
  Generated target;
};

// Returns the next token, or -1 if the rules leave none. The model's logits
// must be finite.
std::int64_t chosen(std::span<const float> row, const SearchSettings& settings,
                    const Line& line, std::uint64_t key) {
  if (!settings.sampling) {
    const std::vector<std::int64_t> best = best_ids(row, 1);
    return best.empty() ? -1 : best.front();
  }
  const Distribution from = distribution(row, *settings.sampling);
  if (from.ids.empty()) return -1;
  const double u =
      uniform(key, line.request->number, line.copy, line.target.ids.size());
  return from.ids[drawn(from.probabilities, u)];
}

void append(Line& line, std::span<float> row, const SearchSettings& settings,
            std::uint64_t key) {
  Generated& target = line.target;
  const Request& request = *line.request;
  check_finite(row, request, target.ids);
  const double all = settings.scored ? log_sum_exp(row) : 0.0;
  double score = 0.0;
  std::int64_t id = 0;
  if (const auto forced = forced_token(settings, request, target.ids)) {
    id = *forced;
  } else {
    ban_tokens(row, settings, request, target.ids);
    id = chosen(row, settings, line, key);
    if (id < 0) no_token_left(request, target.ids);
    if (settings.scored) score = row[static_cast<std::size_t>(id)] - all;
  }
  target.ids.push_back(id);
  target.token_scores.push_back(score);
  target.score += score;
  target.ended = id == settings.end;
}

std::vector<Line> lines_of(const std::vector<Request>& requests,
                           std::int64_t copies) {
  std::vector<Line> lines;
  for (const Request& request : requests) {
    const std::vector<double> scores(request.prefix.size() - 1, 0.0);
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      lines.push_back({&request, copy, {request.prefix, scores, 0.0, false}});
    }
  }
  return lines;
}

// Number of tokens after the prefix.
std::int64_t made(const Line& line) {
  return static_cast<std::int64_t>(line.target.ids.size() -
                                   line.request->prefix.size());
}

}  // namespace

std::vector<Generated> single_search(TargetState& state,
                                     const SearchSettings& settings,
                                     const std::vector<Request>& requests,
                                     const Interrupt& interrupt) {
  const std::uint64_t key =
      settings.sampling ? random_key(*settings.sampling) : 0;
  std::vector<Line> lines = lines_of(requests, settings.returned);
  std::vector<std::size_t> live(lines.size());  // indices of unfinished lines
  std::iota(live.begin(), live.end(), std::size_t{0});
  if (lines.size() > requests.size()) {
    std::vector<std::int64_t> sources;
    for (const std::size_t i : live) {
      sources.push_back(static_cast<std::int64_t>(i) / settings.returned);
    }
    state.select(sources);
  }
  for (std::size_t place = 0; !live.empty(); ++place) {
    interrupt();
    std::vector<std::int64_t> last;
    for (const std::size_t i : live) last.push_back(lines[i].target.ids[place]);
    const Tensor logits = state.next(last);
    parallel_for(static_cast<std::int64_t>(live.size()), [&](std::int64_t job) {
      const auto row = static_cast<std::size_t>(job);
      Line& line = lines[live[row]];
      const bool in_prefix = place + 1 < line.target.ids.size();
      if (!in_prefix) append(line, row_of(logits, row), settings, key);
    });
    std::vector<std::int64_t> kept;
    std::vector<std::size_t> next;
    for (std::size_t row = 0; row < live.size(); ++row) {
      const Line& line = lines[live[row]];
      if (line.target.ended || made(line) == line.request->limit) continue;
      kept.push_back(static_cast<std::int64_t>(row));
      next.push_back(live[row]);
    }
    if (kept.size() < live.size() && !kept.empty()) state.select(kept);
    live = std::move(next);
  }
  std::vector<Generated> out;
  for (Line& line : lines) {
    line.target.score = penalised(line.target.score, made(line), settings);
    out.push_back(std::move(line.target));
  }
  return out;
}

}  // namespace ea
