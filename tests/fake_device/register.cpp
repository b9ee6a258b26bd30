// Registers the fake device as CUDA, with the reference kernels as its kernels.
#include <cstring>
#include <memory>

#include "arena.h"
#include "kernels/list.h"
#include "kernels/ref/run.h"
#include "kernels/registry.h"
#include "runtime/device_backend.h"

namespace ea {

namespace {

using fake::Arena;

class FakeDevice final : public DeviceBackend {
 public:
  int count() const override { return fake::kDevices; }
  std::string description(int index) const override {
    return format("fake device {} for tests", index);
  }
  MemoryBlock allocate(int index, std::size_t bytes) override {
    return fake::arena(index).take(bytes);
  }
  void deallocate(int index, MemoryBlock block) noexcept override {
    fake::arena(index).give(block);
  }
  MemoryStatistics statistics(int index) const override {
    return fake::arena(index).statistics();
  }
  void reset_peak(int index) override { fake::arena(index).reset_peak(); }
  void release_cached(int) override {}
  void set_limit(int index, std::int64_t bytes) override {
    fake::arena(index).set_limit(bytes);
  }
  void copy_from_host(int, void* to, const void* from,
                      std::size_t bytes) override {
    copy_checked(to, from, bytes, fake::on_device(to), !fake::on_device(from));
  }
  void copy_to_host(int, void* to, const void* from,
                    std::size_t bytes) override {
    copy_checked(to, from, bytes, !fake::on_device(to), fake::on_device(from));
  }
  void copy(int to_index, void* to, int from_index, const void* from,
            std::size_t bytes) override {
    copy_checked(to, from, bytes, fake::arena(to_index).holds(to),
                 fake::arena(from_index).holds(from));
  }
  void synchronize(int) override {}

 private:
  static void copy_checked(void* to, const void* from, std::size_t bytes,
                           bool right_target, bool right_source) {
    EA_CHECK_AS(DeviceError, right_target && right_source, "fake_device",
                "a copy of {} bytes between the wrong places", bytes);
    const Arena::Open open;
    std::memcpy(to, from, bytes);
  }
};

// Runs a reference kernel with the memory open. Every tensor must lie on the
// device that its view names.
template <typename K>
void opened(const typename K::Args& args) {
  detail::for_each_view(args, [](const TensorView& view) {
    EA_CHECK_AS(
        DeviceError,
        !view.defined() || fake::arena(view.device.index).holds(view.data),
        K::name, "an argument is said to lie on {} and does not", view.device);
  });
  const Arena::Open open;
  ref::run<K>(args);
}

struct Fake {
  template <typename K>
  void kernel() const {
    register_kernel<K>(DeviceType::cuda, "fake", opened<K>);
  }
};

}  // namespace

void register_fake_device_kernels() {
  for_each_kernel(Fake{});
  for_each_copy(Fake{});
  register_device_probe(DeviceType::cuda, [] {
    return ProbedBackend{std::make_unique<FakeDevice>(), ""};
  });
}

}  // namespace ea
