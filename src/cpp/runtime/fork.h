// Mutexes that are never locked in a forked child.
#pragma once

#include <mutex>

namespace ea {

// fork() first locks all of these; then parent and child unlock them, so the
// guarded data is consistent in the child. A thread that holds one may only
// lock another of a higher level. Objects are never destroyed.
class ForkMutex {
 public:
  enum class Level { gradients, threads, primitives, profiler, random, memory };

  explicit ForkMutex(Level level);
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace ea
