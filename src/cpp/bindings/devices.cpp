// Devices and their memory.
#include "bindings/devices.h"

#include <pybind11/stl.h>

#include "bindings/arguments.h"
#include "runtime/allocator.h"
#include "runtime/cgroup.h"
#include "runtime/check.h"
#include "runtime/device_backend.h"

namespace ea {

namespace {

ListOf<py::str, py::str> all_devices() {
  py::list all;
  for (const DeviceInfo& one : devices()) {
    all.append(py::make_tuple(name_of(one.device), one.description));
  }
  return all;
}

DictOf<py::str> unusable_devices() {
  py::dict all;
  for (int t = 0; t < kDeviceTypes; ++t) {
    const auto type = static_cast<DeviceType>(t);
    const std::string reason = unusable_reason(type);
    if (!reason.empty()) all[py::str(std::string(name_of(type)))] = reason;
  }
  return all;
}

// Calls fn with the backend of the device and its index there.
template <typename Fn>
auto on(const py::object& name, Fn&& fn) {
  const Device device = device_of_python(name);
  DeviceBackend& backend = device_backend(device);
  const ReleasedGil release;
  return fn(backend, device.index);
}

}  // namespace

bool names_device(const py::handle& object) {
  if (!py::isinstance<py::str>(object)) return false;
  const auto text = object.cast<std::string>();
  return text == "cpu" || text == "auto" || text.starts_with("cuda") ||
         text.starts_with("cpu:") || text == "gpu";
}

Device device_of_python(const py::handle& name) {
  EA_CHECK_AS(ConfigError, py::isinstance<py::str>(name), "device",
              "expected a name such as 'cpu' or 'cuda:0', got {}",
              described(name));
  const auto asked = parse_device(name.cast<std::string>());
  if (!asked) return default_device();
  check_available(*asked);
  return *asked;
}

void bind_devices(py::module_& m) {
  const auto device = [] { return py::arg("device") = "cpu"; };
  m.def("devices", &all_devices,
        "Returns (name, description) of every device that can be used.");
  m.def("unusable_devices", &unusable_devices,
        "Returns, by type of device, why none of it can be used.");
  m.def(
      "resolve_device",
      [](const py::object& name) { return name_of(device_of_python(name)); },
      py::arg("name"),
      "Returns the full name of a device; of 'auto', the best one there is.");
  m.def(
      "synchronize",
      [](const py::object& name) {
        const Device device = device_of_python(name);
        const ReleasedGil release;
        synchronize(device);
      },
      device(), "Returns when all work given to the device is done.");
  m.def("host_waits", &host_waits,
        "Returns how often this process has waited for a device: copies to "
        "the CPU, and synchronize().");
  m.def(
      "current_memory",
      [](const py::object& name) {
        return on(name, [](DeviceBackend& b, int i) {
          return b.statistics(i).current;
        });
      },
      device(), "Returns the bytes held by tensors on a device.");
  m.def(
      "peak_memory",
      [](const py::object& name) {
        return on(name,
                  [](DeviceBackend& b, int i) { return b.statistics(i).peak; });
      },
      device(), "Returns the most bytes held since reset_peak_memory().");
  m.def(
      "reset_peak_memory",
      [](const py::object& name) {
        on(name, [](DeviceBackend& b, int i) { b.reset_peak(i); });
      },
      device(), "Restarts the count of peak_memory().");
  m.def(
      "set_memory_limit",
      [](Whole<"set_memory_limit: bytes"> bytes, const py::object& name) {
        EA_CHECK_AS(ConfigError, bytes.value >= 0, "set_memory_limit: bytes",
                    "expected 0 (no limit) or more, got {}", bytes.value);
        on(name, [&](DeviceBackend& b, int i) { b.set_limit(i, bytes.value); });
      },
      py::arg("bytes"), device(),
      "Refuses allocations beyond so many bytes (0: no limit).");
  m.def("memory_limit", &memory_limit,
        "Returns the limit of memory for tensors on the CPU in bytes (0: no "
        "limit). By default it follows from the memory of the container.");
  m.def(
      "memory_limit_within",
      [](const std::string& root) { return limit_within(cgroup_memory(root)); },
      py::arg("root"),
      "Returns the default limit for the control group below "
      "root/sys/fs/cgroup "
      "that root/proc/self/cgroup names.");
  m.def(
      "release_cached_memory",
      [](const py::object& name) {
        on(name, [](DeviceBackend& b, int i) { b.release_cached(i); });
      },
      device(),
      "Gives freed blocks that were kept for reuse back to the system.");
}

}  // namespace ea
