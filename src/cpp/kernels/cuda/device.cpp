// What a GPU is asked: memory, copies, and to be done.
#include "kernels/cuda/device.h"

#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/recording.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/upload.h"
#include "runtime/check.h"

namespace ea::cuda {

namespace {

// Made when a device is first used: that creates its context, which takes time
// and memory.
struct Gpu {
  explicit Gpu(int index)
      : stream(stream_of(index)),
        memory(index, stream),
        recorder(index, stream, memory),
        upload(index, stream),
        done(index) {}
  cudaStream_t stream;
  DeviceMemory memory;
  Recorder recorder;
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

constexpr const char* kLends = "exchanges tensors with another library";
constexpr const char* kAround = "do that before or after the recording";

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
    refuse_recording(index, "gives memory back", kAround);
    gpu(index).memory.release_cached();
  }
  void set_limit(int index, std::int64_t bytes) override {
    gpu(index).memory.set_limit(bytes);
  }

  void copy_from_host(int index, void* to, const void* from,
                      std::size_t bytes) override {
    refuse_recording(index, "reads the host's memory",
                     "bring batches and numbers into tensors that were there "
                     "before, by copy_() before each start");
    const UseDevice use(index);
    gpu(index).upload.copy(to, from, bytes);
  }

  void copy_to_host(int index, void* to, const void* from,
                    std::size_t bytes) override {
    refuse_recording(index, "reads a tensor on the host",
                     "keep it in a tensor that was there before, and read that "
                     "after a start");
    const UseDevice use(index);
    const cudaStream_t stream = gpu(index).stream;
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
               "copy to the host");
    check_cuda(cudaStreamSynchronize(stream), "copy to the host");
  }

  // On the target's stream, after what the source's has still to do; and what
  // the source does next, freeing included, comes after the copy.
  void copy(int to_index, void* to, int from_index, const void* from,
            std::size_t bytes) override {
    const UseDevice use(to_index);
    Gpu& target = gpu(to_index);
    if (to_index == from_index) {
      return check_cuda(
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                          work_stream(to_index)),
          "copy");
    }
    for (const int index : {to_index, from_index}) {
      refuse_recording(index, "copies between devices", kAround);
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
    refuse_recording(index, kLends, kAround);
    return reinterpret_cast<std::intptr_t>(gpu(index).stream);
  }
  void precede(int index, std::intptr_t other) override {
    refuse_recording(index, kLends, kAround);
    order(index, gpu(index).stream, reinterpret_cast<cudaStream_t>(other));
  }
  void follow(int index, std::intptr_t other) override {
    refuse_recording(index, kLends, kAround);
    order(index, reinterpret_cast<cudaStream_t>(other), gpu(index).stream);
  }

  std::string exchange_library() const override { return nccl_report(); }
  std::string communicator_id() const override { return nccl_id(); }
  std::unique_ptr<Communicator> communicator(int index, int size, int rank,
                                             const std::string& id) override {
    return make_communicator(index, size, rank, id);
  }

  void measure(int index) override { gpu(index).recorder.measure(); }
  std::size_t measured(int index) override {
    return gpu(index).recorder.measured();
  }
  void record(int index, std::size_t bytes) override {
    gpu(index).recorder.record(bytes);
  }
  std::unique_ptr<RecordedWork> recorded(int index) override {
    return gpu(index).recorder.recorded();
  }
  void cancel_recording(int index) noexcept override {
    gpu(index).recorder.cancel();
  }
  bool records(int index) const override { return is_diverted(index); }
  void after_recording(int index, std::function<void()> fn) noexcept override {
    gpu(index).recorder.after(std::move(fn));
  }

  void synchronize(int index) override {
    refuse_recording(index, "waits for the device", kAround);
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
  return gpu(index).recorder.allocate(bytes);
}

void deallocate_on(int index, MemoryBlock block) noexcept {
  gpu(index).recorder.deallocate(block);
}

void refuse_recording(int index, const char* does, const char* instead) {
  if (is_diverted(index)) gpu(index).recorder.refuse(does, instead);
}

std::unique_ptr<DeviceBackend> make_backend(int count) {
  return std::make_unique<Cuda>(count);
}

}  // namespace ea::cuda
