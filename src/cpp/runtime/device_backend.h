// The interface of a device, and the table of available devices.
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

// All devices of one type; `index` numbers them from 0. A device runs work in
// the order of submission: memory that a kernel uses may be freed, copied or
// read right after its launch.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual int count() const = 0;  // at least 1
  virtual std::string description(int index) const = 0;

  // Returns at least `bytes`, 64-byte aligned, never null. Throws OutOfMemory.
  virtual MemoryBlock allocate(int index, std::size_t bytes) = 0;
  virtual void deallocate(int index, MemoryBlock block) noexcept = 0;
  virtual MemoryStatistics statistics(int index) const = 0;
  virtual void reset_peak(int index) = 0;
  virtual void release_cached(int index) = 0;
  virtual void set_limit(int index, std::int64_t bytes) = 0;  // 0: none

  // Copy bytes between the host and a device, and between devices of this type.
  // Host memory may be changed or freed as soon as a copy has returned; after
  // copy_to_host it holds the bytes.
  virtual void copy_from_host(int index, void* to, const void* from,
                              std::size_t bytes) = 0;
  virtual void copy_to_host(int index, void* to, const void* from,
                            std::size_t bytes) = 0;
  virtual void copy(int to_index, void* to, int from_index, const void* from,
                    std::size_t bytes) = 0;
  // Returns when all work submitted so far is done.
  virtual void synchronize(int index) = 0;

  // Handle of our stream, with which other libraries synchronise without
  // blocking the host; 0 if the device has none.
  virtual std::intptr_t stream(int) const { return 0; }
  // Order work with a stream of another library. precede: its later work runs
  // after our work so far. follow: our later work runs after its work so far.
  virtual void precede(int, std::intptr_t) {}
  virtual void follow(int, std::intptr_t) {}

  // Library for exchange between processes: name, version, file. This and the
  // next two throw BackendUnavailable if there is none.
  virtual std::string exchange_library() const;
  // Id of a new communicator; rank 0 creates it for all ranks.
  virtual std::string communicator_id() const;
  // Returns when all `size` ranks have called it with the same id.
  virtual std::unique_ptr<Communicator> communicator(int index, int size,
                                                     int rank,
                                                     const std::string& id);
};

// Result of a search for devices: a backend, or the reason why there is none,
// with the places searched and the remedy.
struct ProbedBackend {
  std::unique_ptr<DeviceBackend> backend;
  std::string reason;
};

// Called by register_all_backends() at the start of the process. `probe` runs
// once, when a device of that type is first requested: it takes time, and some
// drivers do not survive a fork after it. The last registration of a type is
// used.
void register_device_probe(DeviceType type, ProbedBackend (*probe)());

// Throws BackendUnavailable with the reason if the device does not exist.
DeviceBackend& device_backend(Device device);
void check_available(Device device);

// Returns the reason why no device of this type can be used; empty if one can.
std::string unusable_reason(DeviceType type);
// Returns the best available device: a GPU before the CPU.
Device default_device();

struct DeviceInfo {
  Device device;
  std::string description;
};
// Returns all usable devices, the CPU first.
std::vector<DeviceInfo> devices();

// Copies bytes between any two devices; see DeviceBackend for when they
// arrive.
void copy_bytes(Device to_device, void* to, Device from_device,
                const void* from, std::size_t bytes);

// Returns when all work submitted to the device so far is done.
void synchronize(Device device);

// Returns how often the host has waited for a device since the process started:
// copies to the host, and synchronize().
std::int64_t host_waits();

}  // namespace ea
