// Work of a device that is written down once and started again as a whole, as
// a CUDA graph, and the memory that it has.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/memory.h"
#include "runtime/device_backend.h"
#include "runtime/offset_pool.h"

namespace ea::cuda {

// Of one device; see DeviceBackend::record(). While a thread records, its work
// goes to a stream of its own, which does nothing but write it down: what other
// threads hand over goes on. Measuring takes the places in an OffsetPool that
// recording will take, beside the memory itself.
class Recorder {
 public:
  Recorder(int index, cudaStream_t stream, DeviceMemory& memory);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // All memory of the device passes here: what a recording has comes from its
  // block, which counts as one for as long as a recording keeps it.
  MemoryBlock allocate(std::size_t bytes);
  void deallocate(MemoryBlock block) noexcept;

  void measure();
  std::size_t measured();
  void record(std::size_t bytes);
  std::unique_ptr<RecordedWork> recorded();
  void cancel() noexcept;

  bool records() const;  // this thread
  // Throws DeviceError where this thread records: its work `does` what cannot
  // be written down, `instead` is what to do.
  void refuse(const char* does, const char* instead);
  // Calls fn now, or when what this thread records has ended.
  void after(std::function<void()> fn) noexcept;

 private:
  enum class Mode : std::uint8_t { none, measuring, recording };
  struct Block;
  // The memory of one measurement (without a block) or recording.
  struct Space {
    std::shared_ptr<Block> block;
    OffsetPool places;
  };
  struct Place {
    std::shared_ptr<Space> space;
    std::size_t offset;
  };
  // What end() leaves: the space, and the first thing that was refused.
  struct Ended {
    std::shared_ptr<Space> space;
    std::string refusal;
  };

  bool is_mine() const;
  void begin(Mode mode);
  Ended end() noexcept;
  std::shared_ptr<Block> block_of(std::size_t bytes);
  MemoryBlock place(std::size_t bytes);

  const int index_;
  const cudaStream_t stream_;
  cudaStream_t recording_ = nullptr;  // made when first used
  DeviceMemory& memory_;
  std::weak_ptr<Block> block_;  // the largest, while a recording keeps it

  std::mutex mutex_;                      // of all below
  std::atomic<std::thread::id> owner_{};  // none while mode_ is none
  std::atomic<bool> watches_{false};      // mode_ or places_ is not none
  Mode mode_ = Mode::none;
  std::shared_ptr<Space> space_;  // then
  std::string refusal_;
  std::vector<std::function<void()>> later_;
  std::unordered_map<void*, Place> places_;  // by address
};

}  // namespace ea::cuda
