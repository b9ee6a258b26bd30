// A reference-counted block of memory: ours, or lent by somebody else.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "runtime/allocator.h"

namespace ea {

class Storage {
 public:
  explicit Storage(std::size_t bytes);  // from the allocator, uninitialised
  // Memory of somebody else; `release` is called when the last user is gone.
  Storage(void* data, std::size_t bytes, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  MemoryBlock block_;  // of the allocator; empty for lent memory
  void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
};

using StoragePtr = std::shared_ptr<Storage>;

}  // namespace ea
