// Scoped timers summed by name; off unless EA_PROFILE=1 or turned on.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ea {

struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
};

void set_profiling(bool on);
bool profiling();
std::vector<ProfileEntry> profile_entries();  // longest first
void reset_profile();

// Adds the time from construction to destruction under `name` (a literal).
class ProfileScope {
 public:
  explicit ProfileScope(const char* name)
      : name_(profiling() ? name : nullptr) {
    if (name_ != nullptr) start_ = std::chrono::steady_clock::now();
  }
  ~ProfileScope() {
    if (name_ != nullptr) finish();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  void finish() noexcept;
  const char* name_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ea
