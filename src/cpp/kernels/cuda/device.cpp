// The CUDA backend: memory, copies and synchronisation of GPUs.
#include "kernels/cuda/device.h"

#include <mutex>
#include <vector>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/upload.h"
#include "runtime/check.h"

namespace ea::cuda {

namespace {

// Created at first use of a device: this creates the device's context, which
// takes time and memory.
struct Gpu {
  explicit Gpu(int index)
      : stream(stream_of(index)),
        memory(index, stream),
        upload(index, stream),
        done(index) {}
  cudaStream_t stream;
  DeviceMemory memory;
  Upload upload;
  Event done;  // of copies between devices
};

// Never destroyed: tensors held by Python may outlive static destructors.
Gpu& gpu(int index) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<Gpu>>;
  const std::lock_guard lock(mutex);
  const auto place = static_cast<std::size_t>(index);
  if (all->size() <= place) all->resize(place + 1);
  if (!(*all)[place]) {
    const UseDevice use(index);
    (*all)[place] = std::make_unique<Gpu>(index);
  }
  return *(*all)[place];
}

std::string described(int index) {
  cudaDeviceProp facts{};
  check_cuda(cudaGetDeviceProperties(&facts, index), "device");
  return format("{}, compute capability {}.{}, {} GiB, {} multiprocessors",
                static_cast<const char*>(facts.name), facts.major, facts.minor,
                facts.totalGlobalMem >> 30, facts.multiProcessorCount);
}

class Cuda final : public DeviceBackend {
 public:
  explicit Cuda(int count) {
    for (int i = 0; i < count; ++i) descriptions_.push_back(described(i));
  }

  int count() const override { return static_cast<int>(descriptions_.size()); }
  std::string description(int index) const override {
    return descriptions_[static_cast<std::size_t>(index)];
  }
  MemoryBlock allocate(int index, std::size_t bytes) override {
    return allocate_on(index, bytes);
  }
  void deallocate(int index, MemoryBlock block) noexcept override {
    deallocate_on(index, block);
  }
  MemoryStatistics statistics(int index) const override {
    return gpu(index).memory.statistics();
  }
  void reset_peak(int index) override { gpu(index).memory.reset_peak(); }
  void release_cached(int index) override {
    gpu(index).memory.release_cached();
  }
  void set_limit(int index, std::int64_t bytes) override {
    gpu(index).memory.set_limit(bytes);
  }

  void copy_from_host(int index, void* to, const void* from,
                      std::size_t bytes) override {
    const UseDevice use(index);
    gpu(index).upload.copy(to, from, bytes);
  }

  void copy_to_host(int index, void* to, const void* from,
                    std::size_t bytes) override {
    const UseDevice use(index);
    const cudaStream_t stream = gpu(index).stream;
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
               "copy to the host");
    check_cuda(cudaStreamSynchronize(stream), "copy to the host");
  }

  // Copies on the target's stream, after the source stream's pending work.
  // Later work of the source, including frees, runs after the copy.
  void copy(int to_index, void* to, int from_index, const void* from,
            std::size_t bytes) override {
    const UseDevice use(to_index);
    Gpu& target = gpu(to_index);
    if (to_index == from_index) {
      return check_cuda(
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                          target.stream),
          "copy");
    }
    Gpu& source = gpu(from_index);
    {
      const UseDevice other(from_index);
      source.done.record(source.stream);
    }
    source.done.wait_on(target.stream);
    check_cuda(cudaMemcpyPeerAsync(to, to_index, from, from_index, bytes,
                                   target.stream),
               "copy");
    target.done.record(target.stream);
    target.done.wait_on(source.stream);
  }

  std::intptr_t stream(int index) const override {
    return reinterpret_cast<std::intptr_t>(gpu(index).stream);
  }
  void precede(int index, std::intptr_t other) override {
    order(index, gpu(index).stream, reinterpret_cast<cudaStream_t>(other));
  }
  void follow(int index, std::intptr_t other) override {
    order(index, reinterpret_cast<cudaStream_t>(other), gpu(index).stream);
  }

  std::string exchange_library() const override { return nccl_report(); }
  std::string communicator_id() const override { return nccl_id(); }
  std::unique_ptr<Communicator> communicator(int index, int size, int rank,
                                             const std::string& id) override {
    return make_communicator(index, size, rank, id);
  }

  void synchronize(int index) override {
    const UseDevice use(index);
    check_cuda(cudaStreamSynchronize(gpu(index).stream), "synchronize");
  }

 private:
  static void order(int index, cudaStream_t first, cudaStream_t second) {
    const UseDevice use(index);
    Event done(index);
    done.record(first);
    done.wait_on(second);
  }

  std::vector<std::string> descriptions_;
};

}  // namespace

MemoryBlock allocate_on(int index, std::size_t bytes) {
  return gpu(index).memory.allocate(bytes);
}

void deallocate_on(int index, MemoryBlock block) noexcept {
  gpu(index).memory.deallocate(block);
}

std::unique_ptr<DeviceBackend> make_backend(int count) {
  return std::make_unique<Cuda>(count);
}

}  // namespace ea::cuda
