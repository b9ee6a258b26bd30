// First-fit allocation in one mapping that has no access rights while closed.
#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/check.h"

namespace ea::fake {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr int kPoison = 0xff;  // a NaN in every floating type

std::mutex opening;
int open_count = 0;

unsigned char* mapped() {
  void* p = mmap(nullptr, Arena::kBytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EA_CHECK_AS(OutOfMemory, p != MAP_FAILED, "fake_device", "no address space");
  return static_cast<unsigned char*>(p);
}

}  // namespace

Arena::Arena() : base_(mapped()), free_{{0, kBytes}} {}

MemoryBlock Arena::take(std::size_t bytes) {
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) /
                           kAlignment * kAlignment;
  MemoryBlock block;
  {
    const std::lock_guard lock(mutex_);
    EA_CHECK_AS(
        OutOfMemory,
        limit_ == 0 ||
            statistics_.current + static_cast<std::int64_t>(size) <= limit_,
        "fake_device", "{} bytes asked for, limit {}", size, limit_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [offset, room] = *it;
      if (room < size) continue;
      free_.erase(it);
      if (room > size) free_[offset + size] = room - size;
      block = {base_ + offset, size};
      break;
    }
    EA_CHECK_AS(OutOfMemory, block.data != nullptr, "fake_device",
                "no {} bytes left", size);
    statistics_.current += static_cast<std::int64_t>(size);
    statistics_.peak = std::max(statistics_.peak, statistics_.current);
  }
  const Open open;
  std::memset(block.data, kPoison, size);
  return block;
}

void Arena::give(MemoryBlock block) noexcept {
  {
    const Open open;
    std::memset(block.data, kPoison, block.capacity);
  }
  const std::lock_guard lock(mutex_);
  statistics_.current -= static_cast<std::int64_t>(block.capacity);
  const auto offset =
      static_cast<std::size_t>(static_cast<unsigned char*>(block.data) - base_);
  auto it = free_.emplace(offset, block.capacity).first;
  const auto after = std::next(it);
  if (after != free_.end() && offset + it->second == after->first) {
    it->second += after->second;
    free_.erase(after);
  }
  if (it != free_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == offset) {
      before->second += it->second;
      free_.erase(it);
    }
  }
}

bool Arena::holds(const void* p) const {
  const auto* at = static_cast<const unsigned char*>(p);
  return at >= base_ && at < base_ + kBytes;
}

// In whole pages. It shrinks when the last blocks are given back.
std::size_t Arena::extent() const {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return kBytes;
  const auto [offset, room] = *free_.rbegin();
  const std::size_t end = offset + room < kBytes ? kBytes : offset;
  return (end + kPage - 1) / kPage * kPage;
}

// mprotect() visits every page that was ever touched, so the pages after the
// last block in use stay closed.
void Arena::open() {
  const std::size_t end = extent();
  if (end <= opened_) return;
  mprotect(base_ + opened_, end - opened_, PROT_READ | PROT_WRITE);
  opened_ = end;
}

void Arena::close() {
  if (opened_ > 0) mprotect(base_, opened_, PROT_NONE);
  opened_ = 0;
}

// Also opens more inside another Open: newer blocks may lie beyond the opened
// pages.
Arena::Open::Open() {
  const std::lock_guard lock(opening);
  ++open_count;
  for (int i = 0; i < kDevices; ++i) arena(i).open();
}

Arena::Open::~Open() {
  const std::lock_guard lock(opening);
  if (--open_count > 0) return;
  for (int i = 0; i < kDevices; ++i) arena(i).close();
}

MemoryStatistics Arena::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void Arena::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak = statistics_.current;
}

void Arena::set_limit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

// Never destroyed: tensors held by Python may outlive static destructors.
Arena& arena(int index) {
  static auto* const all = new Arena[kDevices];
  return all[index];
}

bool on_device(const void* p) {
  for (int i = 0; i < kDevices; ++i) {
    if (arena(i).holds(p)) return true;
  }
  return false;
}

}  // namespace ea::fake
