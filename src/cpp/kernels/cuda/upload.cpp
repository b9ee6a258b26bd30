// The ring buffer of pinned memory.
#include "kernels/cuda/upload.h"

#include <algorithm>
#include <cstring>

namespace ea::cuda {

namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

Upload::Upload(int index, cudaStream_t stream)
    : index_(index), stream_(stream) {}

Upload::~Upload() {
  if (pinned_ != nullptr) static_cast<void>(cudaFreeHost(pinned_));
}

unsigned char* Upload::room(std::size_t bytes) {
  if (pinned_ == nullptr) {
    for (auto& event : read_) event = std::make_unique<Event>(index_);
    void* data = nullptr;
    check_cuda(cudaHostAlloc(&data, kPieces * kPiece, cudaHostAllocDefault),
               "pinned memory");
    pinned_ = static_cast<unsigned char*>(data);
  }
  if (used_ + bytes > kPiece) {
    read_[piece_]->record(stream_);
    piece_ = (piece_ + 1) % kPieces;
    used_ = 0;
    read_[piece_]->wait_on_host();
  }
  unsigned char* const here = pinned_ + piece_ * kPiece + used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return here;
}

void Upload::copy(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  while (bytes > 0) {
    const std::size_t now = std::min(bytes, kPiece);
    unsigned char* const here = room(now);
    std::memcpy(here, source, now);
    check_cuda(
        cudaMemcpyAsync(target, here, now, cudaMemcpyHostToDevice, stream_),
        "copy from the host");
    target += now;
    source += now;
    bytes -= now;
  }
}

}  // namespace ea::cuda
