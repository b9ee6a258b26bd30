// Copies from the host that neither wait for the device nor need the host's
// bytes afterwards: by way of pinned memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "kernels/cuda/stream.h"

namespace ea::cuda {

// A ring of pinned pieces. Small copies share a piece; the host waits only
// where the ring comes round to a piece that the device has not read yet.
class Upload {
 public:
  Upload(int index, cudaStream_t stream);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  void copy(void* to, const void* from, std::size_t bytes);

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  static constexpr std::size_t kPieces = 8;

  unsigned char* room(std::size_t bytes);  // in the current piece

  int index_;
  cudaStream_t stream_;
  std::mutex mutex_;
  unsigned char* pinned_ = nullptr;                   // kPieces * kPiece bytes
  std::array<std::unique_ptr<Event>, kPieces> read_;  // a piece's last copy
  std::size_t piece_ = 0, used_ = 0;
};

}  // namespace ea::cuda
