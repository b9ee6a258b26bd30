// Device memory that lives for one kernel call: partial sums, sorted indices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace ea::cuda {

// In stream order: what was freed may be used again by later work on `stream`.
void* allocate_scratch(cudaStream_t stream, std::size_t bytes);
void free_scratch(cudaStream_t stream, void* data) noexcept;

// `count` elements whose values are not set.
template <typename T>
class Scratch {
 public:
  Scratch(cudaStream_t stream, std::int64_t count)
      : stream_(stream),
        data_(count == 0
                  ? nullptr
                  : static_cast<T*>(allocate_scratch(
                        stream, static_cast<std::size_t>(count) * sizeof(T)))) {
  }
  ~Scratch() {
    if (data_ != nullptr) free_scratch(stream_, data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return data_; }

 private:
  cudaStream_t stream_;
  T* data_;
};

}  // namespace ea::cuda
