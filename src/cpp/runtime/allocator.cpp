// Caching host allocator: large blocks are ranges of pages, free small ones are
// kept in lists by size class.
#include "runtime/allocator.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/cgroup.h"
#include "runtime/check.h"
#include "runtime/fork.h"
#include "runtime/page_ranges.h"

namespace ea {

namespace {

constexpr std::size_t kAlignment = 64;
// Larger blocks are whole pages.
constexpr std::size_t kMalloced = std::size_t{256} << 10;

// Eight classes per power of two: at most 1/8 of a block is slack.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

// Small blocks are many and similar: they are reused only for their own class.
constexpr std::size_t kSmall = std::size_t{1} << 14;
// Bytes that may be cached in addition to the peak use. Cached blocks of
// unsuitable sizes stay unused; with a smaller limit, steps of long sequences
// would return pages to the system and get them back zeroed.
std::int64_t free_cache(std::int64_t most) {
  return std::max(std::int64_t{64} << 20, most / 16);
}

// Returns the bytes of memory and swap of this machine.
std::int64_t machine_memory() {
  struct sysinfo info{};
  if (sysinfo(&info) != 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>((info.totalram + info.totalswap) *
                                   info.mem_unit);
}

class BlockPool {
 public:
  MemoryBlock take(std::size_t bytes) {
    const std::size_t size =
        bytes > kMalloced ? round_up(bytes, kPage) : size_class(bytes);
    const std::lock_guard lock(mutex_);
    // Pages take memory when first used, so the system would grant any size.
    const std::int64_t most =
        limit_ > 0 ? std::min(limit_, machine_) : machine_;
    if (statistics_.current + static_cast<std::int64_t>(size) > most) {
      fail<OutOfMemory>("allocate",
                        "{} bytes asked for, {} in use, limit {}{}; lower the "
                        "batch size{}",
                        size, statistics_.current, most,
                        most == machine_ ? " (the memory of this machine)"
                        : is_default_ ? " (from the memory of this container)"
                                      : "",
                        most == machine_ ? "" : " or raise set_memory_limit");
    }
    const MemoryBlock block = size > kMalloced
                                  ? MemoryBlock{pages_of(size), size}
                                  : cached_or_fresh(size);
    statistics_.current += static_cast<std::int64_t>(block.capacity);
    most_ = std::max(most_, statistics_.current);
    statistics_.peak = std::max(statistics_.peak, statistics_.current);
    return block;
  }

  void give(MemoryBlock block) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_.current -= static_cast<std::int64_t>(block.capacity);
    if (block.capacity > kMalloced) return pages_.give(block.data);
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
    MemoryStatistics all = statistics_;
    all.cached = cached();
    return all;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak = statistics_.current;
  }

  void set_limit(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    is_default_ = false;
  }

  std::int64_t limit() {
    const std::lock_guard lock(mutex_);
    return limit_;
  }

 private:
  std::int64_t cached() const {
    return statistics_.cached + static_cast<std::int64_t>(pages_.free_bytes());
  }

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
    make_room(size);
    const auto fresh = [&] { return std::aligned_alloc(kAlignment, size); };
    return {or_fail(size, fresh), size};
  }

  void* pages_of(std::size_t size) {
    make_room(0);  // the limit may be lower than it was
    if (void* const data = pages_.take(size)) return data;
    make_room(pages_.missing(size));
    return or_fail(size, [&] { return pages_.grow(size); });
  }

  template <typename Fresh>
  void* or_fail(std::size_t size, Fresh&& fresh) {
    void* block = fresh();
    if (block == nullptr) {
      release_locked();
      block = fresh();
    }
    if (block == nullptr) {
      fail<OutOfMemory>("allocate",
                        "the system has no {} bytes left ({} in use by this "
                        "package); lower the batch size or the length",
                        size, statistics_.current);
    }
    return block;
  }

  // Returns cached memory to the system if `bytes` new bytes would exceed the
  // limits on memory in use and cached.
  void make_room(std::size_t bytes) {
    const auto wanted = static_cast<std::int64_t>(bytes);
    const auto beyond = [&](std::int64_t most) {
      return statistics_.current + cached() + wanted - most;
    };
    if (beyond(most_ + free_cache(most_)) > 0) trim(wanted);
    if (limit_ > 0) trim(beyond(limit_));
  }

  // Frees cached blocks, largest first, until `bytes` are freed or none is
  // left.
  void trim(std::int64_t bytes) {
    if (bytes <= 0) return;
    bytes -= static_cast<std::int64_t>(
        pages_.release(static_cast<std::size_t>(bytes)));
    for (auto it = free_.rbegin(); it != free_.rend() && bytes > 0; ++it) {
      while (!it->second.empty() && bytes > 0) {
        std::free(it->second.back());
        it->second.pop_back();
        statistics_.cached -= static_cast<std::int64_t>(it->first);
        bytes -= static_cast<std::int64_t>(it->first);
      }
    }
  }

  void release_locked() {
    constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
    trim(kAll);
  }

  ForkMutex mutex_{ForkMutex::Level::memory};
  PageRanges pages_;
  std::map<std::size_t, std::vector<void*>> free_;
  MemoryStatistics statistics_;  // `cached` without pages_
  std::int64_t most_ = 0;        // largest statistics_.current ever
  std::int64_t limit_ = limit_within(cgroup_memory());
  bool is_default_ = true;  // set_memory_limit() was not called
  const std::int64_t machine_ = machine_memory();
};

// Never destroyed: tensors held by Python may outlive static destructors.
BlockPool& pool() {
  static BlockPool* instance = new BlockPool;
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

std::int64_t memory_limit() { return pool().limit(); }

std::int64_t limit_within(std::int64_t group) {
  constexpr std::int64_t kOthers = std::int64_t{256} << 20;
  return group - std::max(group / 16, std::min(kOthers, group / 4));
}

}  // namespace ea
