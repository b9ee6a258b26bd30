// Process-wide seed and stream counter, and the stream scopes of each thread.
#include "runtime/random.h"

#include <mutex>

#include "runtime/check.h"
#include "runtime/fork.h"

namespace ea {

namespace {
ForkMutex guard{ForkMutex::Level::random};
RandomState current{0x5EED, 0};
thread_local StreamScope* innermost = nullptr;

// The finaliser of SplitMix64 (Steele et al., 2014): every bit of the result
// depends on every bit of x.
std::uint64_t scrambled(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

RandomState stream_of(RandomState pass, StreamSite site, std::uint64_t visit) {
  return {pass.seed,
          scrambled(scrambled(scrambled(pass.offset) ^ site) + visit)};
}

RandomState drawn_from(StreamScope* scope, StreamSite site) {
  if (scope != nullptr) return scope->next(site);
  const std::lock_guard lock(guard);
  const RandomState drawn = current;
  ++current.offset;
  return site == 0 ? drawn : stream_of(drawn, site, 0);
}
}  // namespace

void manual_seed(std::uint64_t seed) {
  const std::lock_guard lock(guard);
  current = {seed, 0};
}

RandomState random_state() {
  const std::lock_guard lock(guard);
  return current;
}

void set_random_state(RandomState state) {
  const std::lock_guard lock(guard);
  current = state;
}

// FNV-1a, 64 bits.
StreamSite stream_site(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

RandomState next_random_stream(StreamSite site) {
  return drawn_from(innermost, site);
}

StreamScope::StreamScope() : outer_(innermost) { innermost = this; }

StreamScope::~StreamScope() { innermost = outer_; }

RandomState StreamScope::from_outside(StreamSite site) const {
  return drawn_from(outer_, site);
}

RandomState PassStreams::next(StreamSite site) {
  return stream_of(pass_, site, visits_[site]++);
}

RandomState NoteStreams::next(StreamSite site) {
  notes_.push_back(from_outside(site));
  return notes_.back();
}

RandomState ReplayStreams::next(StreamSite) {
  EA_CHECK_AS(InputError, at_ < streams_.size(), "recompute",
              "a recomputed step drew more than the {} random streams of its "
              "first run; both runs must do the same: correct the step, or "
              "turn gradient checkpointing off",
              streams_.size());
  return streams_[at_++];
}

}  // namespace ea
