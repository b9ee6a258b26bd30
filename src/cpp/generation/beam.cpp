// Beam search as transformers defines it, each sentence by itself.
#include <algorithm>

#include "generation/searches.h"
#include "runtime/threads.h"

namespace ea {

namespace {

struct Running {
  std::vector<std::int64_t> ids;
  double score;  // sum of log probabilities
};

struct Candidate {
  double score;
  std::size_t beam;  // of its sentence
  std::int64_t id;
};

struct Sentence {
  std::int64_t index, limit;
  std::size_t first;                // its first target in the state
  std::vector<Running> running;     // best first
  std::vector<Generated> finished;  // best first
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
}

class BeamSearch {
 public:
  BeamSearch(TargetState& state, const SearchSettings& settings,
             const std::vector<std::int64_t>& limits)
      : state_(state),
        settings_(settings),
        beams_(static_cast<std::size_t>(settings.beams)),
        out_(limits.size() * static_cast<std::size_t>(settings.returned)) {
    for (std::size_t i = 0; i < limits.size(); ++i) {
      sentences_.push_back({static_cast<std::int64_t>(i),
                            limits[i],
                            i,
                            {{{settings.start}, 0.0}},
                            {}});
    }
  }

  bool done() const { return sentences_.empty(); }
  std::vector<Generated> result() { return std::move(out_); }

  // One more token for every running target.
  void step() {
    ++tokens_;
    std::vector<std::int64_t> last;
    for (const Sentence& s : sentences_) {
      for (const Running& r : s.running) last.push_back(r.ids.back());
    }
    const Tensor logits = state_.next(last);
    std::vector<std::vector<Candidate>> candidates = candidates_of(logits);
    std::vector<Sentence> live;
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < sentences_.size(); ++i) {
      Sentence& s = sentences_[i];
      std::vector<std::int64_t> from = advance(s, candidates[i]);
      if (ends(s)) {
        put_down(s);
        continue;
      }
      for (std::int64_t& beam : from) {
        kept.push_back(static_cast<std::int64_t>(s.first) + beam);
      }
      s.first = kept.size() - from.size();
      live.push_back(std::move(s));
    }
    sentences_ = std::move(live);
    if (!done()) state_.select(kept);
  }

 private:
  // The best 2 * beams continuations of each sentence, best first.
  std::vector<std::vector<Candidate>> candidates_of(const Tensor& logits) {
    std::vector<std::vector<Candidate>> all(sentences_.size());
    parallel_for(static_cast<std::int64_t>(all.size()), [&](std::int64_t job) {
      const Sentence& s = sentences_[static_cast<std::size_t>(job)];
      std::vector<Candidate>& found = all[static_cast<std::size_t>(job)];
      for (std::size_t beam = 0; beam < s.running.size(); ++beam) {
        const std::span<const float> row = row_of(logits, s.first + beam);
        const double base = s.running[beam].score - log_sum_exp(row);
        for (const std::int64_t id : best_ids(row, 2 * beams_, s.index)) {
          found.push_back({base + row[static_cast<std::size_t>(id)], beam, id});
        }
      }
      std::sort(found.begin(), found.end(), better);
      found.resize(std::min(found.size(), 2 * beams_));
    });
    return all;
  }

  // Extends the targets of a sentence; the beams that the running ones come
  // from.
  std::vector<std::int64_t> advance(Sentence& s,
                                    const std::vector<Candidate>& candidates) {
    std::vector<Running> running;
    std::vector<std::int64_t> from;
    for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
      const Candidate& c = candidates[rank];
      const bool ended = c.id == settings_.end;
      const bool stops = ended || tokens_ == s.limit;
      if (stops ? rank >= beams_ : running.size() == beams_) continue;
      std::vector<std::int64_t> ids = s.running[c.beam].ids;
      ids.push_back(c.id);
      if (stops) {
        s.finished.push_back(
            {std::move(ids),
             penalised(c.score, tokens_, settings_.length_penalty), ended});
      } else {
        running.push_back({std::move(ids), c.score});
        from.push_back(static_cast<std::int64_t>(c.beam));
      }
    }
    std::stable_sort(s.finished.begin(), s.finished.end(),
                     [](const Generated& a, const Generated& b) {
                       return a.score > b.score;
                     });
    if (s.finished.size() > beams_) s.finished.resize(beams_);
    s.running = std::move(running);
    return from;
  }

  bool ends(const Sentence& s) const {
    if (tokens_ == s.limit || s.running.empty()) return true;
    if (s.finished.size() < beams_) return false;
    if (settings_.early_stopping == EarlyStopping::at_once) return true;
    const bool longest = settings_.early_stopping == EarlyStopping::never &&
                         settings_.length_penalty > 0.0;
    const double hoped =
        penalised(s.running.front().score, longest ? s.limit : tokens_,
                  settings_.length_penalty);
    return hoped <= s.finished.back().score;
  }

  void put_down(Sentence& s) {
    const auto n = static_cast<std::size_t>(settings_.returned);
    for (std::size_t i = 0; i < n; ++i) {
      out_[static_cast<std::size_t>(s.index) * n + i] =
          std::move(s.finished.at(i));
    }
  }

  TargetState& state_;
  const SearchSettings& settings_;
  std::size_t beams_;
  std::int64_t tokens_ = 0;  // new ones of every running target
  std::vector<Sentence> sentences_;
  std::vector<Generated> out_;
};

}  // namespace

std::vector<Generated> beam_search(TargetState& state,
                                   const SearchSettings& settings,
                                   const std::vector<std::int64_t>& limits,
                                   const Interrupt& interrupt) {
  BeamSearch beams(state, settings, limits);
  while (!beams.done()) {
    interrupt();
    beams.step();
  }
  return beams.result();
}

}  // namespace ea
