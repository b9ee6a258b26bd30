// Mutexes that a forked child never finds locked.
#pragma once

#include <mutex>

namespace ea {

// A fork waits until it holds all of these, and then parent and child let go of
// them: the child finds what they guard whole and free. A thread that holds one
// may take another of a higher level only. Objects are never destroyed.
class ForkMutex {
 public:
  enum class Level { threads, primitives, profiler, random, memory };

  explicit ForkMutex(Level level);
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace ea
