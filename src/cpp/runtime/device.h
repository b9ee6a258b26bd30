// Where data lives. The CPU is the one device so far; kernels are listed per
// device.
#pragma once

#include <cstdint>

namespace ea {

enum class Device : std::uint8_t { cpu };

}  // namespace ea
