// Names of devices.
#include "runtime/device.h"

#include <charconv>
#include <ostream>

#include "runtime/check.h"

namespace ea {

std::string_view name_of(DeviceType type) {
  return type == DeviceType::cpu ? "cpu" : "cuda";
}

std::string name_of(Device device) {
  const std::string name(name_of(device.type));
  return device.is_cpu() ? name : name + ":" + std::to_string(device.index);
}

std::ostream& operator<<(std::ostream& out, Device device) {
  return out << name_of(device);
}

std::optional<Device> parse_device(std::string_view name) {
  if (name == "auto") return {};
  if (name == "cpu") return kCpu;
  if (name == "cuda") return Device{DeviceType::cuda, 0};
  constexpr std::string_view kNumbered = "cuda:";
  if (name.starts_with(kNumbered)) {
    const std::string_view digits = name.substr(kNumbered.size());
    const char* const end = digits.data() + digits.size();
    std::uint16_t index = 0;  // rejects signs and numbers above 65535
    const auto read = std::from_chars(digits.data(), end, index);
    if (read.ec == std::errc() && read.ptr == end) {
      return Device{DeviceType::cuda, index};
    }
  }
  fail<ConfigError>("device",
                    "unknown device '{}'; expected cpu, cuda, cuda:N (the "
                    "number of a GPU, from 0) or auto",
                    name);
}

}  // namespace ea
