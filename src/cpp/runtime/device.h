// The location of data: CPU memory, or the memory of a numbered device. Kernels
// are registered per type of device.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace ea {

enum class DeviceType : std::uint8_t { cpu, cuda };
inline constexpr int kDeviceTypes = 2;

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int32_t index = 0;

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};

std::string_view name_of(DeviceType type);  // "cpu", "cuda"
std::string name_of(Device device);         // "cpu", "cuda:0"
std::ostream& operator<<(std::ostream& out, Device device);

// Parses "cpu", "cuda" (the first one) and "cuda:1"; returns nothing for
// "auto". Throws ConfigError for any other name. runtime/device_backend.h
// checks whether the device exists.
std::optional<Device> parse_device(std::string_view name);

}  // namespace ea
