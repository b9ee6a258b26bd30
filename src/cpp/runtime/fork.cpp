// Handlers around fork(), and the list of the mutexes that they lock.
#include "runtime/fork.h"

#include <pthread.h>

#include <map>

namespace ea {

namespace {

using Locks = std::multimap<ForkMutex::Level, ForkMutex*>;

Locks& locks() {
  static Locks* const all = new Locks;
  return *all;
}

void lock_all() {
  for (const auto& [level, mutex] : locks()) mutex->lock();
}

void unlock_all() {
  for (const auto& [level, mutex] : locks()) mutex->unlock();
}

}  // namespace

ForkMutex::ForkMutex(Level level) {
  static std::mutex* const adding = new std::mutex;
  const std::lock_guard lock(*adding);
  if (locks().empty()) pthread_atfork(lock_all, unlock_all, unlock_all);
  locks().emplace(level, this);
}

}  // namespace ea
