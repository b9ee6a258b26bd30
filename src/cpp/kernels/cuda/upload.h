// Copies from the host through pinned memory: they neither synchronise with the
// device nor need the host's bytes afterwards.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "kernels/cuda/stream.h"

namespace ea::cuda {

// A ring of pinned pieces. Small copies share a piece. The host waits only when
// the ring returns to a piece that the device has not read yet.
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
  std::array<std::unique_ptr<Event>, kPieces> read_;  // last copy of each piece
  std::size_t piece_ = 0, used_ = 0;
};

}  // namespace ea::cuda
