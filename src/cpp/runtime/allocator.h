// The only source of host memory: aligned blocks, cached for reuse and counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ea {

struct MemoryStatistics {
  std::int64_t current = 0;  // bytes handed out and not yet returned
  std::int64_t peak = 0;     // largest `current` since the last reset
  std::int64_t cached = 0;   // bytes kept for reuse
};

// A 64-byte aligned block of `capacity` bytes, at least the requested size.
struct MemoryBlock {
  void* data = nullptr;
  std::size_t capacity = 0;
};

// Blocks are cached for reuse: every training step requests similar sizes, and
// fresh pages cost more than the arithmetic on them. A block above 256 KiB is a
// part of a larger free range of pages (runtime/page_ranges.h); a smaller
// request may get a cached block of up to twice its size. Blocks in use and
// cached blocks together exceed the peak use by at most 1/16 of it or 64 MiB,
// whichever is larger, and never exceed the limit. Throws OutOfMemory if the
// system has no memory or the limit would be exceeded.
MemoryBlock allocate(std::size_t bytes);
void deallocate(MemoryBlock block) noexcept;

MemoryStatistics memory_statistics();
void reset_peak_memory();
void release_cached_memory();
// Limit on the bytes in use; 0: none. The default follows from the memory of
// the control group (runtime/cgroup.h), above which the operating system kills
// the process without a message.
void set_memory_limit(std::int64_t bytes);
std::int64_t memory_limit();
// Returns the default limit for a control group of `group` bytes (0: none). It
// leaves max(group / 16, min(256 MiB, group / 4)) to Python and its libraries.
std::int64_t limit_within(std::int64_t group);

}  // namespace ea
