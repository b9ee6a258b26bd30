// Registers the emulated kernels twice: as implementation "cuda_host" on the
// CPU, after all others, where tests select it; and as kernels of the device
// "cuda", whose memory only they can access.
#include "arena.h"
#include "kernels/cuda/api.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/run.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/supports.h"
#include "kernels/list.h"
#include "kernels/registry.h"
#include "operands.h"
#include "runtime_api.h"

namespace ea {

namespace {

struct OnTheCpu {
  template <typename K>
  void kernel() const {
    register_kernel<K>("cuda_host", emulation::guarded<K, cuda::run<K>>,
                       cuda::supports<K>);
  }
};

// Runs after the copies that were started before it, as on a GPU.
template <typename K>
void on_its_device(const typename K::Args& args) {
  const cuda::UseDevice use(detail::places_of(args).first.index);
  emulation::finish_stream(cuda::current_stream());
  const fake::Arena::Open open;
  emulation::guarded<K, cuda::run<K>>(args);
}

struct OnTheDevice {
  template <typename K>
  void kernel() const {
    register_kernel<K>(DeviceType::cuda, "cuda", on_its_device<K>,
                       cuda::supports<K>);
  }
};

}  // namespace

void register_cuda_host_kernels() {
  for_each_kernel(OnTheCpu{});
  for_each_kernel(OnTheDevice{});
  for_each_copy(OnTheDevice{});
  register_device_probe(DeviceType::cuda, cuda::probe);
}

}  // namespace ea
