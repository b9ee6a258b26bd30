// The main stream of each device, additional streams, and events.
#pragma once

#include "kernels/cuda/api.h"

namespace ea::cuda {

// Returns the stream that runs all our work on a device, in order, except the
// exchange between ranks (nccl.cpp).
cudaStream_t stream_of(int index);
// Returns the stream on which kernels are launched: UseStream's stream, else
// that of the thread's current device.
cudaStream_t current_stream();

// Launches this thread's kernels on another stream of its current device during
// its lifetime. Memory is still allocated and freed in the order of the
// device's main stream.
class UseStream {
 public:
  explicit UseStream(cudaStream_t stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  cudaStream_t before_;
};

// A point in a stream that the host and other streams can wait for.
class Event {
 public:
  explicit Event(int index);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream);
  void wait_on_host() const;  // at once if nothing was recorded
  void wait_on(cudaStream_t stream) const;
  bool is_done() const;  // true also if nothing was recorded

 private:
  int index_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace ea::cuda
