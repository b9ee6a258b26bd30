// Registers the emulated kernels twice: as implementation "cuda_host" on the
// CPU, after all others, where a test forces them; and as those of the device
// "cuda", whose memory nothing but they can reach.
#include <memory>

#include "arena.h"
#include "kernels/cuda/api.h"
#include "kernels/cuda/list.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/stream.h"
#include "kernels/registry.h"
#include "operands.h"
#include "runtime_api.h"

namespace ea {

namespace {

struct OnTheCpu {
  template <typename K, auto entry>
  void kernel(bool (*supports)(const typename K::Args&)) const {
    register_kernel<K>("cuda_host", emulation::guarded<K, entry>, supports);
  }
};

// A call as it was when it was written down: of what its arguments point to,
// lists and the host's arrays are copies.
template <typename K>
struct Frozen {
  explicit Frozen(const typename K::Args& given) : args(given) {
    emulation::List<K>::of(args, operands);
    operands.freeze();
  }
  typename K::Args args;
  emulation::Operands operands;
};

template <typename K, auto entry>
void call(const typename K::Args& args, int device) {
  const cuda::UseDevice use(device);
  const fake::Arena::Open open;
  emulation::guarded<K, entry>(args);
}

// After the copies that were started before it, as on a GPU.
template <typename K, auto entry>
void on_its_device(const typename K::Args& args) {
  detail::Places places;
  detail::find_places(args, places);
  const int device = places.first.index;
  const cuda::UseDevice use(device);
  const cudaStream_t stream = cuda::current_stream();
  if (emulation::is_captured(stream)) {
    emulation::write_down(
        stream, [call_of = std::make_shared<Frozen<K>>(args), device] {
          call<K, entry>(call_of->args, device);
        });
    return;
  }
  emulation::finish_stream(stream);
  call<K, entry>(args, device);
}

struct OnTheDevice {
  template <typename K, auto entry>
  void kernel(bool (*supports)(const typename K::Args&)) const {
    register_kernel<K>(DeviceType::cuda, "cuda", on_its_device<K, entry>,
                       supports);
  }
};

}  // namespace

void register_cuda_host_kernels() {
  cuda::for_each_kernel(OnTheCpu{});
  cuda::for_each_kernel(OnTheDevice{});
  cuda::for_each_copy(OnTheDevice{});
  register_device_probe(DeviceType::cuda, cuda::probe);
}

}  // namespace ea
