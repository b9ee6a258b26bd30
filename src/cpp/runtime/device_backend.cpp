// Table of device backends, including the CPU's.
#include "runtime/device_backend.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/check.h"
#include "runtime/communicator.h"
#include "runtime/cpu_info.h"

namespace ea {

namespace {

class Cpu final : public DeviceBackend {
 public:
  int count() const override { return 1; }
  std::string description(int) const override { return cpu_name(); }
  MemoryBlock allocate(int, std::size_t bytes) override {
    return ea::allocate(bytes);
  }
  void deallocate(int, MemoryBlock block) noexcept override {
    ea::deallocate(block);
  }
  MemoryStatistics statistics(int) const override {
    return memory_statistics();
  }
  void reset_peak(int) override { reset_peak_memory(); }
  void release_cached(int) override { release_cached_memory(); }
  void set_limit(int, std::int64_t bytes) override { set_memory_limit(bytes); }
  void copy_from_host(int, void* to, const void* from,
                      std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_to_host(int, void* to, const void* from,
                    std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy(int, void* to, int, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void synchronize(int) override {}
};

struct Slot {
  ProbedBackend (*probe)() = nullptr;
  std::once_flag once;
  ProbedBackend found;
};

std::atomic<std::int64_t> waits{0};

// Never destroyed: tensors held by Python may outlive static destructors.
std::array<Slot, kDeviceTypes>& table() {
  static auto* const all = [] {
    auto* made = new std::array<Slot, kDeviceTypes>;
    (*made)[0].found.backend = std::make_unique<Cpu>();
    (*made)[1].found.reason =
        "this build of evolving-attention has no CUDA kernels; build it where "
        "nvcc 12.4 or newer is found (docs/architecture.md, CUDA), or use "
        "device=\"cpu\"";
    return made;
  }();
  return *all;
}

const ProbedBackend& entry(DeviceType type) {
  Slot& one = table()[static_cast<std::size_t>(type)];
  std::call_once(one.once, [&one] {
    if (one.probe != nullptr) one.found = one.probe();
  });
  return one.found;
}

}  // namespace

std::string DeviceBackend::exchange_library() const {
  fail<BackendUnavailable>("communicator",
                           "devices of this type ({}) cannot exchange "
                           "gradients between processes; use "
                           "device=\"cpu\"",
                           description(0));
}

std::string DeviceBackend::communicator_id() const {
  return exchange_library();
}

std::unique_ptr<Communicator> DeviceBackend::communicator(int, int, int,
                                                          const std::string&) {
  static_cast<void>(exchange_library());
  return nullptr;
}

void register_device_probe(DeviceType type, ProbedBackend (*probe)()) {
  table()[static_cast<std::size_t>(type)].probe = probe;
}

DeviceBackend& device_backend(Device device) {
  const ProbedBackend& one = entry(device.type);
  EA_CHECK_AS(BackendUnavailable, one.backend != nullptr, "device",
              "{} is not available: {}", device, one.reason);
  const int count = one.backend->count();
  EA_CHECK_AS(BackendUnavailable, device.index >= 0 && device.index < count,
              "device", "{} is not available: this machine has {} to {}",
              device, Device{device.type, 0}, Device{device.type, count - 1});
  return *one.backend;
}

void check_available(Device device) { (void)device_backend(device); }

std::string unusable_reason(DeviceType type) {
  return entry(type).backend ? "" : entry(type).reason;
}

Device default_device() {
  const bool cuda = entry(DeviceType::cuda).backend != nullptr;
  return cuda ? Device{DeviceType::cuda, 0} : kCpu;
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (int t = 0; t < kDeviceTypes; ++t) {
    const auto type = static_cast<DeviceType>(t);
    const ProbedBackend& one = entry(type);
    if (!one.backend) continue;
    for (int i = 0; i < one.backend->count(); ++i) {
      all.push_back({{type, i}, one.backend->description(i)});
    }
  }
  return all;
}

void copy_bytes(Device to_device, void* to, Device from_device,
                const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (from_device.is_cpu()) {
    device_backend(to_device).copy_from_host(to_device.index, to, from, bytes);
  } else if (to_device.is_cpu()) {
    ++waits;
    device_backend(from_device)
        .copy_to_host(from_device.index, to, from, bytes);
  } else {
    EA_CHECK_AS(DeviceError, to_device.type == from_device.type, "copy",
                "cannot copy from {} to {} directly; copy through the CPU",
                from_device, to_device);
    device_backend(to_device).copy(to_device.index, to, from_device.index, from,
                                   bytes);
  }
}

void synchronize(Device device) {
  if (!device.is_cpu()) ++waits;
  device_backend(device).synchronize(device.index);
}

std::int64_t host_waits() { return waits; }

}  // namespace ea
