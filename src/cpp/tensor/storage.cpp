// Returns owned blocks to the allocator and external ones to their owner.
#include "tensor/storage.h"

#include <mutex>
#include <utility>

#include "runtime/device_backend.h"
#include "runtime/fork.h"

namespace ea {

namespace {

// Guards derived_ of every storage; held only while a pointer is swapped.
ForkMutex& mutex() {
  static ForkMutex* const one = new ForkMutex(ForkMutex::Level::primitives);
  return *one;
}

}  // namespace

Storage::Storage(std::size_t bytes, Device device)
    : device_(device),
      block_(device.is_cpu()
                 ? allocate(bytes)
                 : device_backend(device).allocate(device.index, bytes)),
      data_(block_.data),
      bytes_(bytes) {}

Storage::Storage(void* data, std::size_t bytes, std::function<void()> release,
                 Device device)
    : device_(device),
      data_(data),
      bytes_(bytes),
      release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else if (device_.is_cpu()) {
    deallocate(block_);
  } else {
    device_backend(device_).deallocate(device_.index, block_);
  }
}

Storage::DerivedPtr Storage::derived() const {
  if (!has_derived_ || loans_ > 0) return nullptr;
  const std::lock_guard lock(mutex());
  return derived_;
}

void Storage::keep(DerivedPtr made, std::uint64_t version) const {
  if (release_ || loans_ > 0) return;
  const std::lock_guard lock(mutex());
  // Set before the comparison: a write or a loan that comes after it sees the
  // flag, waits for the lock and drops what is stored here.
  has_derived_ = true;
  if (version == version_ && loans_ == 0) derived_.swap(made);
  has_derived_ = derived_ != nullptr;
}

void Storage::note_write() const {
  ++writes_;
  forget_contents();
}

void Storage::forget_contents() const {
  ++version_;
  drop_derived();
}

void Storage::drop_derived() const {
  if (!has_derived_) return;
  DerivedPtr last;  // released after the lock
  const std::lock_guard lock(mutex());
  derived_.swap(last);
  has_derived_ = false;
}

Loan::Loan(StoragePtr storage) : storage_(std::move(storage)) {
  ++storage_->loans_;
  storage_->drop_derived();
}

Loan::~Loan() {
  storage_->forget_contents();  // the holder may have written to it
  --storage_->loans_;
}

}  // namespace ea
