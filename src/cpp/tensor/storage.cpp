// Owned blocks go back to the allocator, lent ones to their owner.
#include "tensor/storage.h"

#include <utility>

namespace ea {

Storage::Storage(std::size_t bytes)
    : block_(allocate(bytes)), data_(block_.data), bytes_(bytes) {}

Storage::Storage(void* data, std::size_t bytes, std::function<void()> release)
    : data_(data), bytes_(bytes), release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    deallocate(block_);
  }
}

}  // namespace ea
