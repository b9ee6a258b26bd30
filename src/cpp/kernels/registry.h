// Typed kernel registry: an ordered list of implementations for each kernel and
// device type. The arguments select the device; the first implementation whose
// supports(args) holds runs, unless one is forced by name.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/arguments.h"
#include "runtime/check.h"
#include "runtime/device.h"
#include "runtime/profiler.h"

namespace ea {

// Public description of one implementation.
struct KernelEntry {
  std::string kernel;
  std::string implementation;
  DeviceType device;
  std::int64_t calls;  // since the process started
};

namespace detail {

struct Implementation {
  std::string name;
  std::atomic<std::int64_t> calls{0};
};

// Names of a kernel's implementations for one device type.
struct ImplementationList {
  std::vector<std::unique_ptr<Implementation>> implementations;
  std::atomic<const Implementation*> forced{nullptr};
};

// Type-independent base of a kernel's lists, registered by name.
struct KernelListBase {
  explicit KernelListBase(const char* kernel_name);
  std::string kernel;
  std::array<ImplementationList, kDeviceTypes> devices;

  void append(DeviceType device, const char* implementation);
  [[noreturn]] void not_found(Device device, const std::string& why) const;
  [[noreturn]] void mixed(const Places& places) const;
};

}  // namespace detail

// The lists of one kernel K, a struct with `name` and `Args`.
template <typename K>
class KernelList : public detail::KernelListBase {
 public:
  using Args = typename K::Args;
  using Run = void (*)(const Args&);
  using Supports = bool (*)(const Args&);

  static KernelList& instance() {
    static auto* const list = new KernelList;  // threads may outlive statics
    return *list;
  }

  void add(DeviceType device, const char* implementation, Run run,
           Supports supports) {
    append(device, implementation);
    entries_[static_cast<std::size_t>(device)].push_back({run, supports});
  }

  void run(const Args& args) {
    const detail::Places places = detail::places_of(args);
    if (places.mixed) mixed(places);
    const auto device = static_cast<std::size_t>(places.first.type);
    const detail::ImplementationList& list = devices[device];
    const std::vector<Entry>& entries = entries_[device];
    const detail::Implementation* forced_one = list.forced.load();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      detail::Implementation* one = list.implementations[i].get();
      if (forced_one != nullptr && forced_one != one) continue;
      const Entry& entry = entries[i];
      if (entry.supports != nullptr && !entry.supports(args)) continue;
      one->calls.fetch_add(1, std::memory_order_relaxed);
      const ProfileScope scope(K::name);
      entry.run(args);
      return;
    }
    not_found(places.first, forced_one != nullptr
                                ? "the forced implementation '" +
                                      forced_one->name +
                                      "' does not take these arguments"
                            : entries.empty() ? "none is registered"
                                              : "none takes these arguments");
  }

 private:
  struct Entry {
    Run run;
    Supports supports;
  };
  KernelList() : KernelListBase(K::name) {}
  std::array<std::vector<Entry>, kDeviceTypes> entries_;
};

// Appends an implementation to the list of K for a device type. Call it in
// order of preference.
template <typename K>
void register_kernel(DeviceType device, const char* implementation,
                     typename KernelList<K>::Run run,
                     typename KernelList<K>::Supports supports = nullptr) {
  KernelList<K>::instance().add(device, implementation, run, supports);
}

// Appends a CPU implementation.
template <typename K>
void register_kernel(const char* implementation,
                     typename KernelList<K>::Run run,
                     typename KernelList<K>::Supports supports = nullptr) {
  register_kernel<K>(DeviceType::cpu, implementation, run, supports);
}

namespace kernels {

// Runs kernel K. Throws DeviceError unless all tensors are on one device, and
// KernelNotFound if no implementation on that device takes the arguments.
template <typename K>
void run(const typename K::Args& args) {
  KernelList<K>::instance().run(args);
}

}  // namespace kernels

// Returns all implementations, sorted by kernel, then device, then preference.
std::vector<KernelEntry> kernel_entries();

// Forces `implementation` of `kernel` ("*": of every kernel that has it), on
// the devices that have it; an empty `implementation` removes the choice.
// Throws KernelNotFound for unknown names.
void force_kernel(const std::string& kernel, const std::string& implementation);
// Applies a list "name:implementation,..." (the form of EA_KERNEL).
void force_kernels(std::string_view choices);

}  // namespace ea
