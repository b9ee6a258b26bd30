// A reference-counted block of memory, and a cache derived from its contents.
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
  // Allocates uninitialised memory on the device. Throws BackendUnavailable.
  explicit Storage(std::size_t bytes, Device device = kCpu);
  // Wraps memory of another owner; calls `release` after the last use.
  Storage(void* data, std::size_t bytes, std::function<void()> release,
          Device device = kCpu);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Data computed from the contents (a weight packed for products), cached
  // until the contents change.
  struct Derived {
    virtual ~Derived() = default;
  };
  using DerivedPtr = std::shared_ptr<const Derived>;
  // Returns null if nothing is cached or the contents may have changed since.
  DerivedPtr derived() const;
  // Caches data computed from the contents of `version`; does nothing if they
  // have changed, or while a Loan allows writes from outside.
  void keep(DerivedPtr made, std::uint64_t version) const;
  std::uint64_t version() const { return version_; }
  bool has_loans() const { return loans_ > 0; }
  // Call it after every change of the contents of a finished tensor.
  void note_write() const;
  // Number of note_write() calls; must not change between saving a tensor and
  // its backward.
  std::uint64_t writes() const { return writes_; }
  void drop_derived() const;

 private:
  friend class Loan;
  Device device_;
  MemoryBlock block_;  // empty for memory of another owner
  void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
  void forget_contents() const;
  mutable std::atomic<std::uint64_t> version_{0}, writes_{0};
  mutable std::atomic<int> loans_{0};
  mutable std::atomic<bool> has_derived_{false};
  mutable DerivedPtr derived_;
};

using StoragePtr = std::shared_ptr<Storage>;

// Held by an object that can write from outside, such as a NumPy view. While a
// Loan exists, nothing is cached with the storage.
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
