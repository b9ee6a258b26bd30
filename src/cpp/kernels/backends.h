// Fills the registry with the kernels and devices of every backend of this
// build.
#pragma once

namespace ea {

// Registers all backends once per process, then applies EA_KERNEL. Call it
// before the first kernel runs.
void register_all_backends();

}  // namespace ea
