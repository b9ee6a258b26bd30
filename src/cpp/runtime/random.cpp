// Process-wide seed and stream counter, and what a thread puts before it.
#include "runtime/random.h"

#include <mutex>

#include "runtime/check.h"
#include "runtime/fork.h"

namespace ea {

namespace {
ForkMutex mutex{ForkMutex::Level::random};
RandomState current{0x5EED, 0};
thread_local StreamScope* innermost = nullptr;

RandomState drawn_from(StreamScope* scope) {
  if (scope != nullptr) return scope->next();
  const std::lock_guard lock(mutex);
  RandomState drawn = current;
  ++current.offset;
  return drawn;
}
}  // namespace

void manual_seed(std::uint64_t seed) {
  const std::lock_guard lock(mutex);
  current = {seed, 0};
}

RandomState random_state() {
  const std::lock_guard lock(mutex);
  return current;
}

void set_random_state(RandomState state) {
  const std::lock_guard lock(mutex);
  current = state;
}

RandomState next_random_stream() { return drawn_from(innermost); }

StreamScope::StreamScope() : outer_(innermost) { innermost = this; }

StreamScope::~StreamScope() { innermost = outer_; }

RandomState StreamScope::from_outside() const { return drawn_from(outer_); }

RandomState NoteStreams::next() {
  notes_.push_back(from_outside());
  return notes_.back();
}

RandomState ReplayStreams::next() {
  EA_CHECK_AS(InputError, at_ < streams_.size(), "recompute",
              "more than {} random streams are drawn, which the first run "
              "drew; a step that is recomputed must do the same each time: "
              "correct it, or turn gradient checkpointing off",
              streams_.size());
  return streams_[at_++];
}

}  // namespace ea
