// The one queue of work that each device has, and events in it.
#pragma once

#include "kernels/cuda/api.h"

namespace ea::cuda {

// Everything that a device does for us runs on this stream, in order.
cudaStream_t stream_of(int index);
// That of the thread's current device: the one that kernels are started on.
cudaStream_t current_stream();

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

 private:
  int index_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace ea::cuda
