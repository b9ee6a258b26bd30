// Places in one block of memory, given out and taken back in a fixed way.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ea {

// The same calls give the same offsets, and a pool of most() bytes serves all
// calls that led to it: whether there is a limit does not show in the offsets.
// So a pool without one measures what memory some work needs.
//
// The smallest hole that is large enough serves, of equal ones the first;
// memory behind the last taken place only where none is. Neighbouring holes are
// joined. Not for several threads at a time.
class OffsetPool {
 public:
  static constexpr std::size_t kGranule = 256;  // sizes are rounded up to it

  explicit OffsetPool(
      std::size_t bytes = std::numeric_limits<std::size_t>::max());

  // Nothing where it does not fit.
  std::optional<std::size_t> take(std::size_t bytes);
  void give(std::size_t offset);  // one of take()

  std::size_t most() const { return most_; }  // end of all that was ever taken
  std::size_t places() const { return taken_.size(); }  // taken now
  std::size_t bytes() const { return bytes_; }          // of those

 private:
  void add_hole(std::size_t offset, std::size_t size);
  void remove_hole(std::map<std::size_t, std::size_t>::iterator hole);

  std::size_t limit_, end_ = 0, most_ = 0, bytes_ = 0;
  std::map<std::size_t, std::size_t> taken_, holes_;       // offset: size
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // size, offset
};

}  // namespace ea
