// The queue of work that each device has, others beside it, and events in them.
#pragma once

#include "kernels/cuda/api.h"

namespace ea::cuda {

// Everything that a device does for us runs on this stream, in order, but for
// what ranks exchange (nccl.cpp).
cudaStream_t stream_of(int index);
// That of the thread's current device, or the one of UseStream: where kernels
// are started.
cudaStream_t current_stream();

// Starts this thread's kernels on another stream of its current device, for as
// long as it lives. Memory keeps being taken and freed in the device's order.
class UseStream {
 public:
  explicit UseStream(cudaStream_t stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  cudaStream_t before_;
};

// A point in a stream that hosts and other streams can wait for.
class Event {
 public:
  explicit Event(int index);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream);
  void wait_on_host() const;  // at once where nothing was recorded
  void wait_on(cudaStream_t stream) const;
  bool is_done() const;  // what was recorded is, or nothing was

 private:
  int index_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace ea::cuda
