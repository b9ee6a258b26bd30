// What a device must be able to do, and the table of those that there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace ea {

class Communicator;

// All devices of one type; `index` numbers them from 0. Work runs in the order
// in which it was handed over, per device: what a kernel was started on may be
// freed, copied or read right after.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual int count() const = 0;  // at least 1
  virtual std::string description(int index) const = 0;

  // At least `bytes`, never null, 64-byte aligned. Throws OutOfMemory.
  virtual MemoryBlock allocate(int index, std::size_t bytes) = 0;
  virtual void deallocate(int index, MemoryBlock block) noexcept = 0;
  virtual MemoryStatistics statistics(int index) const = 0;
  virtual void reset_peak(int index) = 0;
  virtual void release_cached(int index) = 0;
  virtual void set_limit(int index, std::int64_t bytes) = 0;  // 0: none

  // Bytes between the host and a device, and between devices of this type. The
  // host's side may be changed or freed as soon as a copy has returned, and
  // holds its bytes after copy_to_host.
  virtual void copy_from_host(int index, void* to, const void* from,
                              std::size_t bytes) = 0;
  virtual void copy_to_host(int index, void* to, const void* from,
                            std::size_t bytes) = 0;
  virtual void copy(int to_index, void* to, int from_index, const void* from,
                    std::size_t bytes) = 0;
  // Returns when all work handed over so far is done.
  virtual void synchronize(int index) = 0;

  // The queue of work as a number that other libraries of this device know it
  // by, for exchange without waiting; 0 where the device has none.
  virtual std::intptr_t stream(int) const { return 0; }
  // Later work of `other`, a queue of another library, comes after ours so far;
  // and ours after that of `other`.
  virtual void precede(int, std::intptr_t) {}
  virtual void follow(int, std::intptr_t) {}

  // What devices of several processes exchange memory by: name, version, file.
  // This and the next two throw BackendUnavailable where there is nothing.
  virtual std::string exchange_library() const;
  // Names a new communicator: of rank 0, for all its ranks.
  virtual std::string communicator_id() const;
  // Returns when all `size` ranks have called it with the same id.
  virtual std::unique_ptr<Communicator> communicator(int index, int size,
                                                     int rank,
                                                     const std::string& id);
};

// What a look for devices found: a backend, or why there is none: what was
// looked for, where, and what to do.
struct ProbedBackend {
  std::unique_ptr<DeviceBackend> backend;
  std::string reason;
};

// At the start of the process, from register_all_backends(). `probe` is called
// once, when a device of that type is first asked for: looking takes time, and
// some drivers do not live through a fork after it. The last registration of a
// type counts.
void register_device_probe(DeviceType type, ProbedBackend (*probe)());

// Throws BackendUnavailable with the reason where there is no such device.
DeviceBackend& device_backend(Device device);
void check_available(Device device);

// Why no device of this type can be used; empty where one can.
std::string unusable_reason(DeviceType type);
// The best device there is: a GPU before the CPU.
Device default_device();

struct DeviceInfo {
  Device device;
  std::string description;
};
// Every device that can be used, the CPU first.
std::vector<DeviceInfo> devices();

// Between any two devices; see DeviceBackend for when the bytes are there.
void copy_bytes(Device to_device, void* to, Device from_device,
                const void* from, std::size_t bytes);

// Returns when all work handed to the device so far is done.
void synchronize(Device device);

// How often the host has waited for a device since the process started: copies
// to the host, and synchronize().
std::int64_t host_waits();

}  // namespace ea
