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

// Guards locks().
std::mutex& adding() {
  static std::mutex* const one = new std::mutex;
  return *one;
}

void unlock(const Locks& some) {
  for (const auto& [level, mutex] : some) mutex->unlock();
}

// Holds `adding` too when it returns. A thread may hold one of the mutexes
// while it makes another, so `adding` is never held while this waits for them;
// if one was made meanwhile, all are locked again, in their order.
void lock_all() {
  for (;;) {
    adding().lock();
    const Locks all = locks();
    adding().unlock();
    for (const auto& [level, mutex] : all) mutex->lock();
    adding().lock();
    if (all.size() == locks().size()) return;
    adding().unlock();
    unlock(all);
  }
}

void unlock_all() {
  unlock(locks());
  adding().unlock();
}

}  // namespace

ForkMutex::ForkMutex(Level level) {
  const std::lock_guard lock(adding());
  if (locks().empty()) pthread_atfork(lock_all, unlock_all, unlock_all);
  locks().emplace(level, this);
}

}  // namespace ea
