// Instruction-set detection through the compiler's cpuid helpers.
#include "runtime/cpu_info.h"

#include <fstream>

#include "runtime/env.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ea {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) {
      const auto colon = line.find(':');
      return colon == std::string::npos ? line : line.substr(colon + 2);
    }
  }
  return "unknown";
}

Isa isa_found() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") &&
                  __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
                  __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? Isa::avx512 : v3 ? Isa::avx2 : Isa::scalar;
#else
  return Isa::scalar;
#endif
}

Isa isa_used() {
  static const Isa used = [] {
    const Isa found = isa_found();
    if (env::max_isa() == "avx2" && found == Isa::avx512) return Isa::avx2;
    return found;
  }();
  return used;
}

bool has_avx512_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool has_amx_bf16() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool yes = [] {
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
    constexpr long kRequest = 0x1023, kTileData = 18;  // for arch_prctl(2)
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 &&
           (d & kTile) != 0 &&
           syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return yes;
#else
  return false;
#endif
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    default:
      return "scalar";
  }
}

}  // namespace ea
