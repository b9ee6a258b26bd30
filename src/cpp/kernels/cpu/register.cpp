// The CPU's fast kernels in order of preference, for the instruction set in use.
#include "kernels/cpu/simd/targets.h"
#include "kernels/registry.h"
#include "runtime/cpu_info.h"

namespace ea {

void register_cpu_kernels() {}

}  // namespace ea
