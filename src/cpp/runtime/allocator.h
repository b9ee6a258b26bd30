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

// 64-byte aligned block of at least `bytes` (never null). Blocks are cached by
// size class: a training step asks for the same sizes again and again, and
// fresh pages cost more than the arithmetic done in them.
// Throws OutOfMemory when the system has none or the limit would be passed.
void* allocate(std::size_t bytes);
void deallocate(void* block, std::size_t bytes) noexcept;

MemoryStatistics memory_statistics();
void reset_peak_memory();
void release_cached_memory();
void set_memory_limit(std::int64_t bytes);  // 0: none

}  // namespace ea
