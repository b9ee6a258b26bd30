// Registers the kernels of list.h as implementation "cuda" of the CUDA device,
// and the probe for GPUs.
#include "kernels/cuda/api.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/run.h"
#include "kernels/cuda/supports.h"
#include "kernels/list.h"
#include "kernels/registry.h"

namespace ea {

namespace {

// Launches kernels on the device of the arguments.
template <typename K>
void on_its_device(const typename K::Args& args) {
  const cuda::UseDevice use(detail::places_of(args).first.index);
  cuda::run<K>(args);
}

struct Real {
  template <typename K>
  void kernel() const {
    register_kernel<K>(DeviceType::cuda, "cuda", on_its_device<K>,
                       cuda::supports<K>);
  }
};

}  // namespace

void register_cuda_kernels() {
  for_each_kernel(Real{});
  for_each_copy(Real{});
  register_device_probe(DeviceType::cuda, cuda::probe);
}

}  // namespace ea
