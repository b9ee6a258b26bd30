// Memory in whole pages, cut into blocks of any number of them.
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

// A block comes from the smallest free range that holds it, and a free one is
// joined with its free neighbours: steps that ask for the same sizes need no
// new pages after the first, which the system would clear. Not for two threads
// at once.
class PageRanges {
 public:
  // A block of `bytes`, whole pages, of a free range; null if none holds it.
  void* take(std::size_t bytes);
  // The same with new pages, of which it needs missing(bytes); null if the
  // system has none.
  void* grow(std::size_t bytes);
  std::size_t missing(std::size_t bytes) const;
  // Takes a block back.
  void give(void* block) noexcept;
  // Returns free ranges to the system, the largest first, until `bytes` are
  // gone or no range is left; says how many went.
  std::size_t release(std::size_t bytes) noexcept;

  std::size_t free_bytes() const { return free_; }

 private:
  using BySize = std::set<std::pair<std::size_t, char*>>;
  struct Range {
    std::size_t size;
    BySize::node_type key;  // in hand while a block has the range
  };
  using Ranges = std::map<char*, Range>;

  bool reserve(std::size_t bytes) noexcept;
  std::size_t free_before_fresh() const;
  void put_back(Ranges::iterator range) noexcept;

  Ranges ranges_;   // by address: blocks and free ranges
  BySize by_size_;  // the free ranges
  std::size_t free_ = 0;
  char* fresh_ = nullptr;  // addresses whose pages nothing has used yet
  std::size_t fresh_size_ = 0;
};

}  // namespace ea
