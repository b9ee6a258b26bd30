// Memory pool of a device, and its statistics.
#include "kernels/cuda/memory.h"

#include <algorithm>
#include <limits>

#include "runtime/check.h"
#include "runtime/device.h"

namespace ea::cuda {

namespace {

constexpr std::size_t kGranule = 256;  // alignment of blocks

cudaMemPool_t make_pool(int index) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index;
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaMemPoolCreate(&pool, &properties), "memory pool");
  // By default the pool would release all memory at every synchronisation.
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check_cuda(
      cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
      "memory pool");
  return pool;
}

}  // namespace

DeviceMemory::DeviceMemory(int index, cudaStream_t stream)
    : index_(index), stream_(stream), pool_(make_pool(index)) {}

std::uint64_t DeviceMemory::attribute(cudaMemPoolAttr which) const {
  std::uint64_t value = 0;
  check_cuda(cudaMemPoolGetAttribute(pool_, which, &value), "memory pool");
  return value;
}

void DeviceMemory::out_of_memory(std::size_t bytes, const char* why) const {
  const UseDevice use(index_);
  std::size_t free = 0, total = 0;
  static_cast<void>(cudaMemGetInfo(&free, &total));
  fail<OutOfMemory>("allocate",
                    "{} bytes on {}: {}; {} bytes are in use here, {} are the "
                    "limit (0: none), {} of the device's {} are free. Use "
                    "smaller batches, gradient_checkpointing=True or bfloat16",
                    bytes, Device{DeviceType::cuda, index_}, why,
                    current_.load(), limit_.load(), free, total);
}

MemoryBlock DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t size =
      (std::max<std::size_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
  const UseDevice use(index_);  // otherwise CUDA would also start on device 0
  const auto counted = static_cast<std::int64_t>(size);
  const std::int64_t now = current_ += counted;
  const std::int64_t limit = limit_;
  void* data = nullptr;
  cudaError_t status = cudaErrorMemoryAllocation;
  if (limit == 0 || now <= limit) {
    status = cudaMallocFromPoolAsync(&data, size, pool_, stream_);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      release_cached();
      status = cudaMallocFromPoolAsync(&data, size, pool_, stream_);
    }
  }
  if (status != cudaSuccess) {
    current_ -= counted;
    if (limit != 0 && now > limit) out_of_memory(size, "beyond the limit");
    if (status != cudaErrorMemoryAllocation) check_cuda(status, "allocate");
    static_cast<void>(cudaGetLastError());
    out_of_memory(size, "the device has no more");
  }
  std::int64_t peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
  return {data, size};
}

// Destructors call this, so errors are ignored; a persistent error shows at the
// next launch.
void DeviceMemory::deallocate(MemoryBlock block) noexcept {
  if (block.data == nullptr) return;
  current_ -= static_cast<std::int64_t>(block.capacity);
  static_cast<void>(cudaFreeAsync(block.data, stream_));
}

MemoryStatistics DeviceMemory::statistics() const {
  const std::int64_t now = current_;
  const auto reserved =
      static_cast<std::int64_t>(attribute(cudaMemPoolAttrReservedMemCurrent));
  return {now, peak_, std::max<std::int64_t>(0, reserved - now)};
}

void DeviceMemory::reset_peak() { peak_ = current_.load(); }

void DeviceMemory::release_cached() {
  check_cuda(cudaStreamSynchronize(stream_), "memory pool");
  check_cuda(cudaMemPoolTrimTo(pool_, 0), "memory pool");
}

void DeviceMemory::set_limit(std::int64_t bytes) { limit_ = bytes; }

}  // namespace ea::cuda
