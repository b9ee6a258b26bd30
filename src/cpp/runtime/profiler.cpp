// Sums scoped times in one map under a lock (ops take microseconds or more).
#include "runtime/profiler.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "runtime/env.h"
#include "runtime/fork.h"

namespace ea {

namespace {
std::atomic<bool>& enabled() {
  static std::atomic<bool> value{env::profile()};
  return value;
}
ForkMutex mutex{ForkMutex::Level::profiler};
std::map<std::string, ProfileEntry> times;
}  // namespace

void set_profiling(bool on) { enabled() = on; }

bool profiling() { return enabled().load(std::memory_order_relaxed); }

std::vector<ProfileEntry> profile_entries() {
  std::vector<ProfileEntry> entries;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [name, entry] : times) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return entries;
}

void reset_profile() {
  const std::lock_guard lock(mutex);
  times.clear();
}

void ProfileScope::finish() noexcept {
  const std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start_;
  const std::lock_guard lock(mutex);
  ProfileEntry& entry = times[name_];
  entry.name = name_;
  ++entry.calls;
  entry.seconds += spent.count();
}

}  // namespace ea
