// Best fit among the holes before the end of what is taken.
#include "runtime/offset_pool.h"

#include <algorithm>
#include <iterator>

namespace ea {

OffsetPool::OffsetPool(std::size_t bytes) : limit_(bytes) {}

std::optional<std::size_t> OffsetPool::take(std::size_t bytes) {
  const std::size_t size =
      (std::max<std::size_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
  std::size_t offset = end_;
  const auto fit = by_size_.lower_bound({size, 0});
  if (fit != by_size_.end()) {
    const auto [room, begin] = *fit;
    remove_hole(holes_.find(begin));
    if (room > size) add_hole(begin + size, room - size);
    offset = begin;
  } else {
    if (size > limit_ - end_) return {};
    end_ += size;
    most_ = std::max(most_, end_);
  }
  taken_.emplace(offset, size);
  bytes_ += size;
  return offset;
}

void OffsetPool::give(std::size_t offset) {
  const auto place = taken_.find(offset);
  std::size_t begin = offset, size = place->second;
  bytes_ -= size;
  taken_.erase(place);
  const auto after = holes_.find(begin + size);
  if (after != holes_.end()) {
    size += after->second;
    remove_hole(after);
  }
  const auto next = holes_.lower_bound(begin);
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      size += before->second;
      remove_hole(before);
    }
  }
  if (begin + size == end_) {
    end_ = begin;
  } else {
    add_hole(begin, size);
  }
}

void OffsetPool::add_hole(std::size_t offset, std::size_t size) {
  holes_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void OffsetPool::remove_hole(
    std::map<std::size_t, std::size_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

}  // namespace ea
