// The one source of memory: aligned blocks, cached for reuse and counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ea {

struct MemoryStatistics {
  std::int64_t current = 0;  // bytes handed out and not yet returned
  std::int64_t peak = 0;     // largest `current` since the last reset
  std::int64_t cached = 0;   // bytes kept for reuse
};

// A 64-byte aligned block of `capacity` bytes, at least what was asked for.
struct MemoryBlock {
  void* data = nullptr;
  std::size_t capacity = 0;
};

// Blocks are cached for reuse: a training step asks for like sizes again and
// again, and fresh pages cost more than the arithmetic done in them. A cached
// block of up to twice the size serves too (packed batches differ a little from
// step to step), and the cache never grows beyond the most that was in use.
// Throws OutOfMemory when the system has none or the limit would be passed.
MemoryBlock allocate(std::size_t bytes);
void deallocate(MemoryBlock block) noexcept;

MemoryStatistics memory_statistics();
void reset_peak_memory();
void release_cached_memory();
void set_memory_limit(std::int64_t bytes);  // 0: none

}  // namespace ea
