// Registers the emulated kernels as implementation "cuda_host", after all
// others: they run where a test forces them.
#include "kernels/cuda/list.h"
#include "kernels/registry.h"
#include "operands.h"

namespace ea {

namespace {

struct Emulated {
  template <typename K, auto entry>
  void kernel(bool (*supports)(const typename K::Args&)) const {
    register_kernel<K>("cuda_host", emulation::guarded<K, entry>, supports);
  }
};

}  // namespace

void register_cuda_host_kernels() { cuda::for_each_kernel(Emulated{}); }

}  // namespace ea
