// Process-wide seed and stream counter.
#include "runtime/random.h"

#include <mutex>

#include "runtime/fork.h"

namespace ea {

namespace {
ForkMutex mutex{ForkMutex::Level::random};
RandomState current{0x5EED, 0};
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

RandomState next_random_stream() {
  const std::lock_guard lock(mutex);
  RandomState drawn = current;
  ++current.offset;
  return drawn;
}

}  // namespace ea
