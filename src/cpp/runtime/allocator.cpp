// Caching host allocator: free blocks are kept in lists by size class.
#include "runtime/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/cgroup.h"
#include "runtime/check.h"
#include "runtime/fork.h"

namespace ea {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Eight classes per power of two: at most 1/8 of a block is slack.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

// Pages of the system, aligned to a huge page. The rest that does not fill a
// huge page stays in small pages: otherwise a weight of 768 x 768 floats would
// take 4 MiB instead of 2.25.
void* map_pages(std::size_t size) {
  const std::size_t bytes = round_up(size, kPage);
  void* all = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(all);
  const std::size_t before = round_up(begin, kHugePage) - begin;
  char* const block = static_cast<char*>(all) + before;
  if (before > 0) munmap(all, before);
  if (before < kHugePage) munmap(block + bytes, kHugePage - before);
  const std::size_t huge = bytes / kHugePage * kHugePage;
  madvise(block, huge, MADV_HUGEPAGE);
  if (huge < bytes) madvise(block + huge, bytes - huge, MADV_NOHUGEPAGE);
  return block;
}

void* from_system(std::size_t size) {
  if (size >= kHugePage) return map_pages(size);
  return std::aligned_alloc(kAlignment, round_up(size, kAlignment));
}

void to_system(void* block, std::size_t size) noexcept {
  if (size >= kHugePage) {
    munmap(block, round_up(size, kPage));
  } else {
    std::free(block);
  }
}

// Small blocks are many and similar: they are reused for their own class only.
constexpr std::size_t kSmall = std::size_t{1} << 14;
// Bytes that may be cached beyond the peak use. Blocks of unsuitable sizes stay
// unused: with a smaller limit, steps of long sequences return pages to the
// system and get them back zeroed.
std::int64_t free_cache(std::int64_t most) {
  return std::max(std::int64_t{64} << 20, most / 16);
}

class BlockPool {
 public:
  MemoryBlock take(std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    if (limit_ > 0 &&
        statistics_.current + static_cast<std::int64_t>(size) > limit_) {
      fail<OutOfMemory>(
          "allocate",
          "{} bytes asked for, {} in use, limit {}{}; lower the "
          "batch size or raise set_memory_limit",
          size, statistics_.current, limit_,
          is_default_ ? " (from the memory of this container)" : "");
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
      to_system(block.data, block.capacity);
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
    is_default_ = false;
  }

  std::int64_t limit() {
    const std::lock_guard lock(mutex_);
    return limit_;
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
    const auto wanted = static_cast<std::int64_t>(size);
    const auto beyond = [&](std::int64_t most) {
      return statistics_.current + statistics_.cached + wanted - most;
    };
    if (beyond(most_ + free_cache(most_)) > 0) trim(wanted);
    if (limit_ > 0) trim(beyond(limit_));
    return {fresh(size), size};
  }

  // Frees cached blocks, largest first, until `bytes` are gone or none is left.
  void trim(std::int64_t bytes) {
    for (auto it = free_.rbegin(); it != free_.rend() && bytes > 0; ++it) {
      while (!it->second.empty() && bytes > 0) {
        to_system(it->second.back(), it->first);
        it->second.pop_back();
        statistics_.cached -= static_cast<std::int64_t>(it->first);
        bytes -= static_cast<std::int64_t>(it->first);
      }
    }
  }

  void* fresh(std::size_t size) {
    void* block = from_system(size);
    if (block == nullptr) {
      release_locked();
      block = from_system(size);
    }
    if (block == nullptr) {
      fail<OutOfMemory>("allocate",
                        "the system has no {} bytes left ({} in use by this "
                        "package); lower the batch size or the length",
                        size, statistics_.current);
    }
    return block;
  }

  void release_locked() {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) to_system(block, size);
      blocks.clear();
    }
    statistics_.cached = 0;
  }

  ForkMutex mutex_{ForkMutex::Level::memory};
  std::map<std::size_t, std::vector<void*>> free_;
  MemoryStatistics statistics_;
  std::int64_t most_ = 0;  // of statistics_.current, ever
  std::int64_t limit_ = limit_within(cgroup_memory());
  bool is_default_ = true;  // nobody has set the limit
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
