// CUDA graphs of the emulated runtime: what is put into a stream that is
// captured is written down, and done at every launch. What a capture refuses,
// or could not mean, spoils it: more than CUDA refuses, so that whoever depends
// on what is only allowed there is found out.
//
// EA_EMULATED_CUDA=no_graphs: a driver that makes none.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "runtime_api.h"
#include "stream.h"

using ea::emulation::everything;

struct CUgraph_st {
  std::vector<std::function<void()>> work;
  std::thread::id owner;
  int device = 0;
  bool spoiled = false;
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<std::function<void()>>> work;
};

namespace {

std::vector<CUgraph_st*>& under_way() {
  static auto* const all = new std::vector<CUgraph_st*>;
  return *all;
}

bool spoil(CUgraph_st* graph) {
  if (graph == nullptr) return false;
  graph->spoiled = true;
  return true;
}

}  // namespace

namespace ea::emulation {

bool is_captured(cudaStream_t stream) {
  const std::lock_guard lock(everything());
  return stream->capture != nullptr;
}

bool write_down(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(everything());
  if (stream->capture == nullptr) return false;
  stream->capture->work.push_back(std::move(work));
  return true;
}

bool spoils(cudaStream_t stream) {
  // Small numbers name the default streams, which are never captured.
  if (reinterpret_cast<std::uintptr_t>(stream) < 3) return false;
  const std::lock_guard lock(everything());
  return spoil(stream->capture);
}

bool spoils(int device) {
  const std::lock_guard lock(everything());
  bool any = false;
  for (CUgraph_st* const graph : under_way()) {
    if (graph->owner == std::this_thread::get_id() &&
        (device < 0 || device == graph->device)) {
      any = spoil(graph);
    }
  }
  return any;
}

}  // namespace ea::emulation

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(everything());
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->capture =
      new CUgraph_st{{}, std::this_thread::get_id(), stream->device};
  under_way().push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(everything());
  *graph = nullptr;
  if (stream->capture == nullptr) return cudaErrorInvalidValue;
  std::erase(under_way(), stream->capture);
  const std::unique_ptr<CUgraph_st> made(
      std::exchange(stream->capture, nullptr));
  if (made->spoiled) return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st(std::move(*made));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long) {
  if (ea::emulation::amiss() == "no_graphs") return cudaErrorNotSupported;
  *made = new CUgraphExec_st{
      std::make_shared<std::vector<std::function<void()>>>(graph->work)};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const std::lock_guard lock(everything());
  if (ea::emulation::spoils(stream)) return cudaErrorStreamCaptureUnsupported;
  stream->later(
      [work = graph->work] {
        for (const auto& one : *work) one();
      },
      {});
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

// Nothing of it may be needed any more.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const std::lock_guard lock(everything());
  if (ea::emulation::spoils()) return cudaErrorStreamCaptureUnsupported;
  delete graph;
  return cudaSuccess;
}
