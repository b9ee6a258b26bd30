// Memory that faults unless it is open: host code that reads a tensor of the
// fake device by mistake ends the process there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "runtime/allocator.h"

namespace ea::fake {

class Arena {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;

  Arena();
  // Returns a block filled with NaN. give() fills it with NaN too. Throws
  // OutOfMemory.
  MemoryBlock take(std::size_t bytes);
  void give(MemoryBlock block) noexcept;
  bool holds(const void* p) const;

  // While one of these lives, the blocks of all arenas can be read and written.
  class Open {
   public:
    Open();
    ~Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
  };

  MemoryStatistics statistics() const;
  void reset_peak();
  void set_limit(std::int64_t bytes);

 private:
  // Called by Open only.
  void open();
  void close();
  std::size_t extent() const;  // end of the last block in use

  mutable std::mutex mutex_;
  unsigned char* base_;
  std::size_t opened_ = 0;  // bytes from the base that are open
  std::map<std::size_t, std::size_t> free_;  // offset: bytes
  MemoryStatistics statistics_;
  std::int64_t limit_ = 0;
};

inline constexpr int kDevices = 2;
Arena& arena(int index);
// Whether a pointer points into the memory of one of the devices.
bool on_device(const void* p);

}  // namespace ea::fake
