// Owned blocks go back to the allocator, lent ones to their owner.
#include "tensor/storage.h"

#include <utility>

#include "runtime/allocator.h"

namespace ea {

Storage::Storage(std::size_t bytes) : data_(allocate(bytes)), bytes_(bytes) {}

Storage::Storage(void* data, std::size_t bytes, std::function<void()> release)
    : data_(data), bytes_(bytes), release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    deallocate(data_, bytes_);
  }
}

}  // namespace ea
