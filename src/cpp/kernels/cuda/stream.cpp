// Streams that do not synchronise with the legacy default stream, created at
// first use.
#include "kernels/cuda/stream.h"

#include <map>
#include <mutex>
#include <utility>

namespace ea::cuda {

namespace {

thread_local cudaStream_t chosen = nullptr;

}  // namespace

cudaStream_t stream_of(int index) {
  static std::mutex mutex;
  // Never destroyed: tensors held by Python may outlive static destructors.
  static auto* const streams = new std::map<int, cudaStream_t>;
  const std::lock_guard lock(mutex);
  const auto found = streams->find(index);
  if (found != streams->end()) return found->second;
  const UseDevice use(index);
  cudaStream_t made = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "stream");
  return streams->emplace(index, made).first->second;
}

cudaStream_t current_stream() {
  if (chosen != nullptr) return chosen;
  int index = 0;
  check_cuda(cudaGetDevice(&index), "stream");
  return stream_of(index);
}

UseStream::UseStream(cudaStream_t stream)
    : before_(std::exchange(chosen, stream)) {}

UseStream::~UseStream() { chosen = before_; }

Event::Event(int index) : index_(index) {
  const UseDevice use(index_);
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
             "event");
}

Event::~Event() { static_cast<void>(cudaEventDestroy(event_)); }

void Event::record(cudaStream_t stream) {
  check_cuda(cudaEventRecord(event_, stream), "event");
}

void Event::wait_on_host() const {
  check_cuda(cudaEventSynchronize(event_), "event");
}

void Event::wait_on(cudaStream_t stream) const {
  check_cuda(cudaStreamWaitEvent(stream, event_, 0), "event");
}

bool Event::is_done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "event");
  return true;
}

}  // namespace ea::cuda
