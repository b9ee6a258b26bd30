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
// fresh pages cost more than the arithmetic on them. Above 256 KiB a block is
// cut from a larger free range of pages (runtime/page_ranges.h), below that one
// of up to twice the size is taken. Blocks in use and cached ones together
// exceed the peak use by at most 1/16 of it or 64 MiB, and never the limit.
// Throws OutOfMemory when the system has no memory or the limit would be
// exceeded.
MemoryBlock allocate(std::size_t bytes);
void deallocate(MemoryBlock block) noexcept;

MemoryStatistics memory_statistics();
void reset_peak_memory();
void release_cached_memory();
// The limit of blocks in use; 0: none. By default it follows from the memory of
// the control group (runtime/cgroup.h), beyond which the kernel would kill the
// process without a word.
void set_memory_limit(std::int64_t bytes);
std::int64_t memory_limit();
// The default for a group of so many bytes (0: none): 1/16, or 256 MiB if that
// is at most a quarter of it, stays for Python and its libraries.
std::int64_t limit_within(std::int64_t group);

}  // namespace ea
