// Keeps ranges of pages by address and by size.
#include "runtime/page_ranges.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace ea {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Reserves addresses for `size` bytes, from the beginning of a huge page;
// returns null if the system has none. Pages take memory when first used.
char* map_addresses(std::size_t size) {
  void* const all = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(all);
  const std::size_t before = round_up(begin, kHugePage) - begin;
  char* const found = static_cast<char*>(all) + before;
  if (before > 0) munmap(all, before);
  if (before < kHugePage) munmap(found + size, kHugePage - before);
  madvise(found, size, MADV_HUGEPAGE);
  return found;
}

}  // namespace

void* PageRanges::take(std::size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) return nullptr;
  char* const begin = found->second;
  const auto range = ranges_.find(begin);
  const std::size_t rest = range->second.size - bytes;
  if (rest > 0) {
    BySize::node_type key;
    {
      BySize made{{rest, begin + bytes}};
      key = made.extract(made.begin());
    }
    ranges_.emplace(begin + bytes, Range{rest, {}});  // the last that can throw
    by_size_.insert(std::move(key));
    range->second.size = bytes;
  }
  range->second.key = by_size_.extract(found);
  free_ -= bytes;
  return begin;
}

std::size_t PageRanges::free_before_fresh() const {
  if (ranges_.empty()) return 0;
  const auto next = ranges_.lower_bound(fresh_);
  if (next == ranges_.begin()) return 0;
  const auto& [begin, range] = *std::prev(next);
  const bool is_free = range.key.empty() && begin + range.size == fresh_;
  return is_free ? range.size : 0;
}

std::size_t PageRanges::missing(std::size_t bytes) const {
  return round_up(bytes - std::min(bytes, free_before_fresh()), kHugePage);
}

void* PageRanges::grow(std::size_t bytes) {
  if (missing(bytes) > fresh_size_ && !reserve(bytes)) return nullptr;
  const std::size_t size = missing(bytes);
  BySize made{{size, fresh_}};
  const auto range = ranges_.emplace(fresh_, Range{size, {}}).first;
  range->second.key = made.extract(made.begin());
  fresh_ += size;
  fresh_size_ -= size;
  put_back(range);
  return take(bytes);
}

// Replaces the unused addresses by new ones: many, so that neighbours can be
// joined, or as few as suffice.
bool PageRanges::reserve(std::size_t bytes) noexcept {
  constexpr std::size_t kReserve = std::size_t{1} << 30;
  const std::size_t least = round_up(bytes, kHugePage);
  std::size_t size = std::max(least, kReserve);
  char* found = map_addresses(size);
  while (found == nullptr && size > least) {
    size = std::max(least, size / 2 / kHugePage * kHugePage);
    found = map_addresses(size);
  }
  if (found == nullptr) return false;
  if (fresh_size_ > 0) munmap(fresh_, fresh_size_);
  fresh_ = found;
  fresh_size_ = size;
  return true;
}

void PageRanges::give(void* block) noexcept {
  put_back(ranges_.find(static_cast<char*>(block)));
}

// Frees a range whose key is not in by_size_, and joins it with its free
// neighbours.
void PageRanges::put_back(Ranges::iterator range) noexcept {
  BySize::node_type key = std::move(range->second.key);
  free_ += range->second.size;
  const auto joins = [](Ranges::iterator low, Ranges::iterator high) {
    return low->first + low->second.size == high->first &&
           low->second.key.empty() && high->second.key.empty();
  };
  const auto next = std::next(range);
  if (next != ranges_.end() && joins(range, next)) {
    by_size_.erase({next->second.size, next->first});
    range->second.size += next->second.size;
    ranges_.erase(next);
  }
  if (range != ranges_.begin() && joins(std::prev(range), range)) {
    const auto before = std::prev(range);
    by_size_.erase({before->second.size, before->first});
    before->second.size += range->second.size;
    ranges_.erase(range);
    range = before;
  }
  key.value() = {range->second.size, range->first};
  by_size_.insert(std::move(key));
}

std::size_t PageRanges::release(std::size_t bytes) noexcept {
  std::size_t gone = 0;
  while (gone < bytes && !by_size_.empty()) {
    const auto largest = std::prev(by_size_.end());
    const auto [size, begin] = *largest;
    munmap(begin, size);
    ranges_.erase(begin);
    by_size_.erase(largest);
    gone += size;
  }
  free_ -= gone;
  return gone;
}

}  // namespace ea
