// A reference-counted block of memory, and what is kept of its contents.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace ea {

class Storage {
 public:
  // From the device's allocator, uninitialised. Throws BackendUnavailable.
  explicit Storage(std::size_t bytes, Device device = kCpu);
  // Memory of somebody else; `release` is called when the last user is gone.
  Storage(void* data, std::size_t bytes, std::function<void()> release,
          Device device = kCpu);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Something made of the contents (a weight in the layout of products), kept
  // beside them for as long as they are what they were.
  struct Derived {
    virtual ~Derived() = default;
  };
  using DerivedPtr = std::shared_ptr<const Derived>;
  // Null when nothing is kept, or the contents may have changed since.
  DerivedPtr derived() const;
  // Keeps it, made of the contents of `version`. Not when they have changed,
  // and not where somebody outside can write to them unseen.
  void keep(DerivedPtr made, std::uint64_t version) const;
  std::uint64_t version() const { return version_; }
  // Whoever changes the contents of a finished tensor calls this afterwards.
  void note_write() const;
  void drop_derived() const;

 private:
  friend class Loan;
  Device device_;
  MemoryBlock block_;  // of the allocator; empty for lent memory
  void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
  mutable std::atomic<std::uint64_t> version_{0};
  mutable std::atomic<int> loans_{0};
  mutable std::atomic<bool> has_derived_{false};
  mutable DerivedPtr derived_;
};

using StoragePtr = std::shared_ptr<Storage>;

// Held by whoever can write from outside, a NumPy view for example: nothing is
// derived from the storage while one lives.
class Loan {
 public:
  explicit Loan(StoragePtr storage);
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  StoragePtr storage_;
};

}  // namespace ea
