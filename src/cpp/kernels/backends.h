// Fills the registry with the kernels and devices of every backend of this
// build.
#pragma once

namespace ea {

// Once per process, before the first kernel runs; then applies EA_KERNEL.
void register_all_backends();

}  // namespace ea
