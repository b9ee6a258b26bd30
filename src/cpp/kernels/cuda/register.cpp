// Registers the kernels of list.h as implementation "cuda" of that device.
#include "kernels/cuda/list.h"
#include "kernels/registry.h"

namespace ea {

namespace {

struct Real {
  template <typename K, auto entry>
  void kernel(bool (*supports)(const typename K::Args&)) const {
    register_kernel<K>(DeviceType::cuda, "cuda", entry, supports);
  }
};

}  // namespace

void register_cuda_kernels() { cuda::for_each_kernel(Real{}); }

}  // namespace ea
