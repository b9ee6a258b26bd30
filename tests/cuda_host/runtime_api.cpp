// CUDA's runtime on the CPU, as late as CUDA allows: asynchronous work is
// deferred until a kernel, a waiting host or another stream needs it, which
// exposes code that reuses memory too early.
//
// EA_EMULATED_CUDA simulates a defective machine: no_driver, old_driver,
// no_gpu, no_pools, capability=M.m (instead of 9.0); cublas.cpp handles
// no_cublas.
#include "runtime_api.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "arena.h"
#include "runtime/error.h"
#include "stream.h"

using ea::fake::Arena;

struct CUevent_st {
  cudaStream_t stream = nullptr;
  std::uint64_t after = 0;  // pieces of its work
};

struct CUmemPool_st {
  int device;
};

namespace {

std::recursive_mutex everything;
thread_local int current = 0;

std::map<const void*, std::size_t>& pinned() {
  static auto* const all = new std::map<const void*, std::size_t>;
  return *all;
}

std::map<void*, ea::MemoryBlock>& blocks() {
  static auto* const all = new std::map<void*, ea::MemoryBlock>;
  return *all;
}

// The handles 1 and 2 name the default streams.
cudaStream_t named(cudaStream_t stream) {
  static auto* const defaults =
      new CUstream_st[2]{CUstream_st(0), CUstream_st(0)};
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  return number == 1 || number == 2 ? &defaults[number - 1] : stream;
}

// Returns the simulated defect, as "no_gpu" or "capability=7.5".
std::string amiss() {
  const char* const value = std::getenv("EA_EMULATED_CUDA");
  return value == nullptr ? "" : value;
}

void run_until(cudaStream_t stream, std::uint64_t after) {
  while (stream->done < after) {
    const CUstream_st::Work next = std::move(stream->work.front());
    stream->work.pop_front();
    ++stream->done;
    next.run();
  }
}

void finish(cudaStream_t stream) {
  run_until(stream, stream->done + stream->work.size());
}

bool is_pinned(const void* from, std::size_t bytes) {
  auto at = pinned().upper_bound(from);
  if (at == pinned().begin()) return false;
  --at;
  const auto* const begin = static_cast<const unsigned char*>(at->first);
  return static_cast<const unsigned char*>(from) + bytes <= begin + at->second;
}

void move(void* to, const void* from, std::size_t bytes) {
  const Arena::Open open;
  std::memcpy(to, from, bytes);
}

// Returns whether a block's location is what the call states.
bool right(const void* p, int device, bool on_device) {
  return on_device ? ea::fake::arena(device).holds(p) : !ea::fake::on_device(p);
}

}  // namespace

namespace ea::emulation {

void finish_stream(cudaStream_t stream) {
  const std::lock_guard lock(everything);
  finish(stream);
}

}  // namespace ea::emulation

void CUstream_st::later(Run run, Ready ready) {
  const std::lock_guard lock(everything);
  work.push_back({std::move(run), std::move(ready)});
}

void CUstream_st::finish() { ea::emulation::finish_stream(this); }

void CUstream_st::copy(void* to, const void* from, std::size_t bytes) const {
  move(to, from, bytes);
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "driver version is insufficient for runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      return "invalid argument";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                            : "cudaErrorInvalidValue";
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = amiss() == "no_driver"    ? 0
             : amiss() == "old_driver" ? 12020
                                       : 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (amiss() == "old_driver") return cudaErrorInsufficientDriver;
  if (amiss() == "no_gpu") return cudaErrorNoDevice;
  *count = ea::fake::kDevices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= ea::fake::kDevices) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  const std::string name = "emulated GPU " + std::to_string(device);
  std::memcpy(properties->name, name.c_str(), name.size() + 1);
  cudaDeviceGetAttribute(&properties->major, cudaDevAttrComputeCapabilityMajor,
                         device);
  cudaDeviceGetAttribute(&properties->minor, cudaDevAttrComputeCapabilityMinor,
                         device);
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = Arena::kBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const std::string what = amiss();
  const std::string key = "capability=";
  const std::string given =
      what.rfind(key, 0) == 0 ? what.substr(key.size()) : "9.0";
  const std::size_t dot = given.find('.');
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = std::stoi(given.substr(0, dot));
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = std::stoi(given.substr(dot + 1));
      return cudaSuccess;
    default:
      *value = what == "no_pools" ? 0 : 1;
      return cudaSuccess;
  }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(everything);
  *stream = new CUstream_st(current);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(everything);
  finish(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  const std::lock_guard lock(everything);
  const CUevent_st at = *event;
  if (at.stream != nullptr) {
    named(stream)->later([at] { run_until(at.stream, at.after); }, {});
  }
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(everything);
  stream = named(stream);
  *event = {stream, stream->done + stream->work.size()};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(everything);
  if (event->stream != nullptr) run_until(event->stream, event->after);
  return cudaSuccess;
}

// Runs pending work that need not wait, which a GPU would do on its own.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::unique_lock lock(everything, std::try_to_lock);
  if (!lock.owns_lock()) return cudaErrorNotReady;
  const cudaStream_t stream = event->stream;
  while (stream != nullptr && stream->done < event->after) {
    const CUstream_st::Ready& ready = stream->work.front().ready;
    if (ready && !ready()) return cudaErrorNotReady;
    run_until(stream, stream->done + 1);
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                              const cudaMemPoolProps* properties) {
  *pool = new CUmemPool_st{properties->location.id};
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr,
                                    void* value) {
  const std::int64_t bytes = ea::fake::arena(pool->device).statistics().current;
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes,
                                    cudaMemPool_t pool, cudaStream_t) {
  const std::lock_guard lock(everything);
  try {
    const ea::MemoryBlock block = ea::fake::arena(pool->device).take(bytes);
    *data = block.data;
    blocks()[block.data] = block;
    return cudaSuccess;
  } catch (const ea::OutOfMemory&) {
    return cudaErrorMemoryAllocation;
  }
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const std::lock_guard lock(everything);
  const auto found = blocks().find(data);
  if (found == blocks().end()) return cudaErrorInvalidValue;
  const ea::MemoryBlock block = found->second;
  const int device = stream->device;
  blocks().erase(found);
  stream->later([block, device] { ea::fake::arena(device).give(block); }, {});
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = Arena::kBytes;
  *free = Arena::kBytes - static_cast<std::size_t>(
                              ea::fake::arena(current).statistics().current);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  const std::lock_guard lock(everything);
  *data = std::malloc(bytes);
  pinned()[*data] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  const std::lock_guard lock(everything);
  pinned().erase(data);
  std::free(data);
  return cudaSuccess;
}

// Copies from pinned memory and within a device are deferred; all others run at
// once, as CUDA may do.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(everything);
  if (!right(to, stream->device, kind != cudaMemcpyDeviceToHost) ||
      !right(from, stream->device, kind != cudaMemcpyHostToDevice)) {
    return cudaErrorInvalidValue;
  }
  if (kind == cudaMemcpyDeviceToDevice || is_pinned(from, bytes)) {
    stream->later([=] { move(to, from, bytes); }, {});
  } else {
    finish(stream);
    move(to, from, bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const std::lock_guard lock(everything);
  if (!right(to, to_device, true) || !right(from, from_device, true)) {
    return cudaErrorInvalidValue;
  }
  stream->later([=] { move(to, from, bytes); }, {});
  return cudaSuccess;
}
