// Beam search as transformers defines it, independent for each sentence.
#include <algorithm>
#include <cmath>

#include "generation/sampling.h"
#include "generation/searches.h"
#include "runtime/check.h"
#include "runtime/threads.h"

namespace ea {

namespace {

struct Running {
  std::vector<std::int64_t> ids;
  std::vector<double> token_scores;
  double score;  // sum of token_scores
};

struct Candidate {
  double score;
  std::size_t beam;  // index in its sentence
  std::int64_t id;
  double token_score;
};

struct Sentence {
  std::size_t index;
  const Request* request;
  std::size_t first;                // index of its first target in the state
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
             const std::vector<Request>& requests)
      : state_(state),
        settings_(settings),
        beams_(static_cast<std::size_t>(settings.beams)),
        key_(settings.sampling ? random_key(*settings.sampling) : 0),
        out_(requests.size() * static_cast<std::size_t>(settings.returned)) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::vector<std::int64_t>& prefix = requests[i].prefix;
      const std::vector<double> scores(prefix.size() - 1, 0.0);
      sentences_.push_back({i, &requests[i], i, {{prefix, scores, 0.0}}, {}});
    }
  }

  bool done() const { return sentences_.empty(); }
  std::vector<Generated> result() { return std::move(out_); }

  // Adds one token to every running target.
  void step() {
    std::vector<std::int64_t> last;
    for (const Sentence& s : sentences_) {
      for (const Running& r : s.running) last.push_back(r.ids[length_]);
    }
    const Tensor logits = state_.next(last);
    ++length_;
    std::vector<std::vector<Candidate>> candidates = candidates_of(logits);
    std::vector<Sentence> live;
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < sentences_.size(); ++i) {
      Sentence& s = sentences_[i];
      std::vector<std::int64_t> from{0};
      if (!in_prefix(s)) {
        from = advance(s, candidates[i]);
        if (ends(s)) {
          put_down(s);
          continue;
        }
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
  bool in_prefix(const Sentence& s) const {
    return length_ < s.request->prefix.size();
  }

  // Number of new tokens of the sentence's running targets, including this
  // step's.
  std::int64_t made(const Sentence& s) const {
    return static_cast<std::int64_t>(length_ + 1 - s.request->prefix.size());
  }

  // Returns 2 * beams continuations of each sentence: the best ones, best
  // first, or drawn ones in the order of drawing.
  std::vector<std::vector<Candidate>> candidates_of(const Tensor& logits) {
    std::vector<std::vector<Candidate>> all(sentences_.size());
    parallel_for(static_cast<std::int64_t>(all.size()), [&](std::int64_t job) {
      const Sentence& s = sentences_[static_cast<std::size_t>(job)];
      if (in_prefix(s)) return;
      std::vector<Candidate>& found = all[static_cast<std::size_t>(job)];
      for (std::size_t beam = 0; beam < s.running.size(); ++beam) {
        add_candidates(s, beam, row_of(logits, s.first + beam), found);
      }
      if (found.empty()) no_token_left(*s.request, s.running.front().ids);
      if (settings_.sampling) {
        found = drawn_of(s, found);
      } else {
        std::sort(found.begin(), found.end(), better);
        found.resize(std::min(found.size(), 2 * beams_));
      }
    });
    return all;
  }

  std::vector<Candidate> drawn_of(const Sentence& s,
                                  const std::vector<Candidate>& all) const {
    double highest = all.front().score;
    for (const Candidate& c : all) highest = std::max(highest, c.score);
    std::vector<double> probabilities;
    for (const Candidate& c : all) {
      probabilities.push_back(std::exp(c.score - highest));
    }
    std::vector<Candidate> found;
    for (std::size_t i = 0; i < std::min(all.size(), 2 * beams_); ++i) {
      const double u = uniform(key_, s.request->number,
                               static_cast<std::int64_t>(i), length_);
      const std::size_t at = drawn(probabilities, u);
      if (probabilities[at] == 0.0) break;  // none is left
      found.push_back(all[at]);
      probabilities[at] = 0.0;
    }
    return found;
  }

  void add_candidates(const Sentence& s, std::size_t beam, std::span<float> row,
                      std::vector<Candidate>& found) const {
    const Running& r = s.running[beam];
    check_finite(row, *s.request, r.ids);
    if (const auto forced = forced_token(settings_, *s.request, r.ids)) {
      found.push_back({r.score, beam, *forced, 0.0});
      return;
    }
    const double all = log_sum_exp(row);
    ban_tokens(row, settings_, *s.request, r.ids);
    if (settings_.sampling) {
      // One more than the number of end tokens, as in transformers.
      constexpr std::size_t kLeast = 2;
      const Sampling& sampling = *settings_.sampling;
      for (const std::int64_t id : distribution(row, sampling, kLeast).ids) {
        const double score =
            (row[static_cast<std::size_t>(id)] - all) / sampling.temperature;
        found.push_back({r.score + score, beam, id, score});
      }
      return;
    }
    for (const std::int64_t id : best_ids(row, 2 * beams_)) {
      const double score = row[static_cast<std::size_t>(id)] - all;
      found.push_back({r.score + score, beam, id, score});
    }
  }

  static Running extended(const Sentence& s, const Candidate& c) {
    Running next = s.running[c.beam];
    next.ids.push_back(c.id);
    next.token_scores.push_back(c.token_score);
    next.score = c.score;
    return next;
  }

  // Extends the targets of a sentence. Returns the beams that the running
  // targets come from.
  std::vector<std::int64_t> advance(Sentence& s,
                                    const std::vector<Candidate>& candidates) {
    std::vector<Candidate> goes_on;
    const std::int64_t tokens = made(s);
    for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
      const Candidate& c = candidates[rank];
      const bool ended = c.id == settings_.end;
      if (!ended && tokens < s.request->limit) {
        goes_on.push_back(c);
      } else if (rank < beams_) {
        Running last = extended(s, c);
        s.finished.push_back({std::move(last.ids), std::move(last.token_scores),
                              penalised(c.score, tokens, settings_), ended});
      }
    }
    std::sort(goes_on.begin(), goes_on.end(), better);
    goes_on.resize(std::min(goes_on.size(), beams_));
    std::vector<Running> running;
    std::vector<std::int64_t> from;
    for (const Candidate& c : goes_on) {
      running.push_back(extended(s, c));
      from.push_back(static_cast<std::int64_t>(c.beam));
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
    if (made(s) == s.request->limit || s.running.empty()) return true;
    if (s.finished.size() < beams_) return false;
    if (settings_.early_stopping == EarlyStopping::at_once) return true;
    const bool longest = settings_.early_stopping == EarlyStopping::never &&
                         settings_.length_penalty > 0.0;
    const double hoped =
        penalised(s.running.front().score, longest ? s.request->limit : made(s),
                  settings_);
    return hoped <= s.finished.back().score;
  }

  void put_down(Sentence& s) {
    const auto n = static_cast<std::size_t>(settings_.returned);
    EA_CHECK_AS(ConfigError, s.finished.size() >= n, "generate",
                "sentence {}: the rules and limits leave {} targets, expected "
                "num_return_sequences = {}; loosen them, or ask for fewer",
                s.request->number, s.finished.size(), n);
    for (std::size_t i = 0; i < n; ++i) {
      out_[s.index * n + i] = std::move(s.finished[i]);
    }
  }

  TargetState& state_;
  const SearchSettings& settings_;
  std::size_t beams_;
  std::uint64_t key_;       // key of the random numbers
  std::size_t length_ = 0;  // tokens that the state has read
  std::vector<Sentence> sentences_;
  std::vector<Generated> out_;
};

}  // namespace

std::vector<Generated> beam_search(TargetState& state,
                                   const SearchSettings& settings,
                                   const std::vector<Request>& requests,
                                   const Interrupt& interrupt) {
  BeamSearch beams(state, settings, requests);
  while (!beams.done()) {
    interrupt();
    beams.step();
  }
  return beams.result();
}

}  // namespace ea
