// Bounded cache of what takes milliseconds to make: oneDNN primitives.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/fork.h"

namespace ea::onednn {

// Keeps what was used last. Key has operator== and words(), an array of the
// int64 to hash.
template <typename Key, typename Made>
class MadeOnce {
 public:
  using Pointer = std::shared_ptr<const Made>;

  // Returns what make(key) returned for an equal key. Callable from any thread.
  template <typename Make>
  Pointer find(const Key& key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = index_.find(key);
      if (at != index_.end()) {
        items_.splice(items_.begin(), items_, at->second);
        return at->second->second;
      }
    }
    Pointer made;
    {
      // Not under the cache's lock: this takes milliseconds. oneDNN keeps a
      // promise for each primitive under construction; a child forked meanwhile
      // would wait for it forever.
      const std::lock_guard lock(making_);
      made = make(key);
    }
    const std::lock_guard lock(mutex_);
    if (index_.contains(key)) return made;
    items_.emplace_front(key, made);
    index_.emplace(key, items_.begin());
    if (items_.size() > kCapacity) {
      index_.erase(items_.back().first);
      items_.pop_back();
    }
    return made;
  }

 private:
  // A model has about a hundred products for each of its ten or so weight
  // shapes: with few rows, the last tile may have any height up to 128. It has
  // some tens of convolutions, each with three passes and a few heights.
  static constexpr std::size_t kCapacity = 2048;

  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::size_t h = 1469598103934665603u;
      for (const std::int64_t word : key.words()) {
        h = (h ^ static_cast<std::size_t>(word)) * 1099511628211u;
        h ^= h >> 29;
      }
      return h;
    }
  };

  using Item = std::pair<Key, Pointer>;
  ForkMutex making_{ForkMutex::Level::primitives};
  ForkMutex mutex_{ForkMutex::Level::primitives};
  std::list<Item> items_;  // from most to least recently used
  std::unordered_map<Key, typename std::list<Item>::iterator, Hash> index_;
};

}  // namespace ea::onednn
