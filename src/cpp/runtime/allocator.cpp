// Caching host allocator: free blocks are kept in lists by size class.
#include "runtime/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/check.h"
#include "runtime/fork.h"

namespace ea {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Eight classes per power of two: at most 1/8 of a block is slack.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

// Small blocks are many and alike: those are reused only for their own class.
constexpr std::size_t kSmall = std::size_t{1} << 14;
// Below this the cache may grow freely.
constexpr std::int64_t kFreeCache = std::int64_t{64} << 20;

class Pool {
 public:
  MemoryBlock take(std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    if (limit_ > 0 &&
        statistics_.current + static_cast<std::int64_t>(size) > limit_) {
      fail<OutOfMemory>("allocate",
                        "{} bytes asked for, {} in use, limit {}; lower the "
                        "batch size or raise set_memory_limit",
                        size, statistics_.current, limit_);
    }
    const MemoryBlock block = cached_or_fresh(size);
    statistics_.current += static_cast<std::int64_t>(block.capacity);
    most_ = std::max(most_, statistics_.current);
    statistics_.peak = std::max(statistics_.peak, statistics_.current);
    return block;
  }

  void give(MemoryBlock block) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_.current -= static_cast<std::int64_t>(block.capacity);
    try {
      free_[block.capacity].push_back(block.data);
      statistics_.cached += static_cast<std::int64_t>(block.capacity);
    } catch (...) {
      std::free(block.data);
    }
  }

  void release() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

  MemoryStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.current;
  }

  void set_limit(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

 private:
  MemoryBlock cached_or_fresh(std::size_t size) {
    const std::size_t largest = size < kSmall ? size : 2 * size;
    for (auto it = free_.lower_bound(size);
         it != free_.end() && it->first <= largest; ++it) {
      if (it->second.empty()) continue;
      void* data = it->second.back();
      it->second.pop_back();
      statistics_.cached -= static_cast<std::int64_t>(it->first);
      return {data, it->first};
    }
    if (statistics_.current + statistics_.cached +
            static_cast<std::int64_t>(size) >
        most_ + kFreeCache) {
      trim(static_cast<std::int64_t>(size));
    }
    return {fresh(size), size};
  }

  // Frees cached blocks, largest first, until `bytes` are gone or none is left.
  void trim(std::int64_t bytes) {
    for (auto it = free_.rbegin(); it != free_.rend() && bytes > 0; ++it) {
      while (!it->second.empty() && bytes > 0) {
        std::free(it->second.back());
        it->second.pop_back();
        statistics_.cached -= static_cast<std::int64_t>(it->first);
        bytes -= static_cast<std::int64_t>(it->first);
      }
    }
  }

  void* fresh(std::size_t size) {
    const std::size_t alignment = size >= kHugePage ? kHugePage : kAlignment;
    const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
    void* block = std::aligned_alloc(alignment, rounded);
    if (block == nullptr) {
      release_locked();
      block = std::aligned_alloc(alignment, rounded);
    }
    if (block == nullptr) {
      fail<OutOfMemory>("allocate",
                        "the system has no {} bytes left ({} in use by this "
                        "package); lower the batch size or the length",
                        size, statistics_.current);
    }
    if (size >= kHugePage) madvise(block, rounded, MADV_HUGEPAGE);
    return block;
  }

  void release_locked() {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
      blocks.clear();
    }
    statistics_.cached = 0;
  }

  ForkMutex mutex_{ForkMutex::Level::memory};
  std::map<std::size_t, std::vector<void*>> free_;
  MemoryStatistics statistics_;
  std::int64_t most_ = 0;  // of statistics_.current, ever
  std::int64_t limit_ = 0;
};

// Never destroyed: tensors held by Python may outlive static destructors.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

}  // namespace

MemoryBlock allocate(std::size_t bytes) { return pool().take(bytes); }

void deallocate(MemoryBlock block) noexcept {
  if (block.data != nullptr) pool().give(block);
}

MemoryStatistics memory_statistics() { return pool().statistics(); }

void reset_peak_memory() { pool().reset_peak(); }

void release_cached_memory() { pool().release(); }

void set_memory_limit(std::int64_t bytes) { pool().set_limit(bytes); }

}  // namespace ea
