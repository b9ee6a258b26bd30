// Memory in whole pages, partitioned into blocks of any number of pages.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace ea {

constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

// A block is taken from the smallest free range that holds it; a freed block is
// joined with its free neighbours. Steps that request the same sizes thus need
// no new pages, which the system would clear, after the first step. Not
// thread-safe.
class PageRanges {
 public:
  // Takes `bytes` (whole pages) from a free range; null if none holds them.
  void* take(std::size_t bytes);
  // Takes `bytes` after adding missing(bytes) bytes of new pages; null if the
  // system has none.
  void* grow(std::size_t bytes);
  std::size_t missing(std::size_t bytes) const;
  // Frees a block.
  void give(void* block) noexcept;
  // Returns free ranges to the system, largest first, until `bytes` are
  // released or no range is left. Returns the bytes released.
  std::size_t release(std::size_t bytes) noexcept;

  std::size_t free_bytes() const { return free_; }

 private:
  using BySize = std::set<std::pair<std::size_t, char*>>;
  struct Range {
    std::size_t size;
    BySize::node_type key;  // held here while the range is a block
  };
  using Ranges = std::map<char*, Range>;

  bool reserve(std::size_t bytes) noexcept;
  std::size_t free_before_fresh() const;
  void put_back(Ranges::iterator range) noexcept;

  Ranges ranges_;   // by address: blocks and free ranges
  BySize by_size_;  // the free ranges
  std::size_t free_ = 0;
  char* fresh_ = nullptr;  // addresses whose pages are still unused
  std::size_t fresh_size_ = 0;
};

}  // namespace ea
